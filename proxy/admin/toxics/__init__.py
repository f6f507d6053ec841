"""Toxiproxy's toxics over plain TCP: the engine behind the Toxiproxy-compatible API.

What toxics make of bytes is `notleader.proxy.net.shaping`, pure; `bodies` and `requests` are too. `engine` and
`connection` are the IO around them.
Words here are Toxiproxy's: downstream is towards the client, upstream towards the server.
"""
