"""Exit 0 when the proxy in this container serves clients: its `/readyz` (or another path given) answers 200.

The address is NOTLEADER_ADMIN, as for the proxy itself; a wildcard is asked through loopback. No token is
needed there. Where that turns the HTTP API off there is nobody to ask: that the process runs has to do.
Standard library only: it starts in a tenth of the time of the `notleader` command.
"""

import http.client
import os
import sys

OFF = ("none", "off", "")
LOOPBACK = {"0.0.0.0": "127.0.0.1", "[::]": "::1", "": "localhost"}


def main() -> int:
    admin = os.environ.get("NOTLEADER_ADMIN", "127.0.0.1:8474")
    if admin.lower() in OFF:
        print("the HTTP API is off: nobody was asked")  # noqa: T201
        return 0
    host, _, port = admin.rpartition(":")
    connection = http.client.HTTPConnection(LOOPBACK.get(host, host.strip("[]")), int(port), timeout=3)
    try:
        connection.request("GET", sys.argv[1] if len(sys.argv) > 1 else "/readyz")
        answer = connection.getresponse()
    except OSError as error:
        print(f"no answer on {host}:{port}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print(answer.read().decode("utf-8", "replace"))  # noqa: T201
    return 0 if answer.status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
