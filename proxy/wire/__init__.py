"""Kafka's wire protocol: frames to headers, bodies and records, and back to the very same bytes.

Pure: bytes and numbers in, values out. `header` reads what every frame starts with, `codec` compiles a
decoder and encoder per (api_key, api_version, direction) from the definitions in `schemas`, `view` has both,
`partitions` and `addresses` know where topics, partitions and broker addresses sit, `records` reads batches.
"""
