"""What the page's functions do to a proxy: main.py HOST PORT ECHO."""

import sys

from recipe import add_fault, slow
from requests import HTTPError


class Started:
    """The proxy that is there, in place of a container that was started."""

    def get_container_host_ip(self) -> str:
        return sys.argv[1]

    def get_exposed_port(self, port: int) -> int:
        return int(sys.argv[2])


add_fault(Started(), {"kind": "drop_response", "name": "python"})
slow(Started(), "127.0.0.1:0", sys.argv[3])
try:
    add_fault(Started(), {"kind": "nonsense"})
except HTTPError as error:
    print("OK, and:", error.response.text)
