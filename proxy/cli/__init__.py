"""The `notleader` command, one module for each of its own; `lab` and `brokerlog` bring theirs."""
