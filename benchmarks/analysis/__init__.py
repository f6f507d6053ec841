"""What the analysis costs as captures grow: generated captures, a laptop's Spark, a standalone cluster, and DuckDB."""
