"""Toxiproxy's toxics over plain TCP: the engine behind the Toxiproxy-compatible API.

`kinds` and `link` are pure: bytes and a time in, planned bytes and times out. `engine` is the IO around them.
Words here are Toxiproxy's: downstream is towards the client, upstream towards the server.
"""
