"""Scenarios of which the truth is known, run before a real broker by real clients, and what the analysis says of them.

What judges here shares nothing with `notleader.spark_analysis`: the broker's log is read with a plain client, what the
clients said is read as JSON, the capture's rows are counted one by one, and a cause is shown by taking its rule away.
"""
