"""The traffic recorder: exchanges become rows (``rows``, pure), a thread writes them as Parquet (``writer``)."""
