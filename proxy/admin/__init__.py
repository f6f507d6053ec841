"""The control plane: HTTP API, Toxiproxy-compatible API, dashboard, metrics.

`app` builds the ASGI application, `serve` runs it in the proxy's event loop, `guard` keeps strangers and web
pages out, `problems` says what was wrong. What it needs of the proxy is spelled out in `target`; its client
is `notleader.proxy.cli.fault`.
"""
