module notleader/load

go 1.19
