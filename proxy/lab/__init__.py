"""The lab: real brokers, real clients, and the runs that put a proxy between them."""
