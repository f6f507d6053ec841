"""What is in a broker's log, read over the wire past every proxy, as Parquet: the evidence for the verdicts."""
