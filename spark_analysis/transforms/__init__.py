"""DataFrame in, DataFrame out: from what was captured and said to one row per client operation."""
