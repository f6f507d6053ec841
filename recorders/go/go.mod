module notleader.lab/recorder

go 1.17
