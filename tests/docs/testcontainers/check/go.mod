module notleader.test/check

go 1.23.0
