"""Which addresses are one place."""

from __future__ import annotations

import pytest

from notleader.proxy.wire.endpoint import is_served_by, parse_endpoint


@pytest.mark.parametrize(
    ("address", "listen", "same"),
    [
        ("localhost:9092", "127.0.0.1:9092", True),
        ("127.0.0.1:9092", "0.0.0.0:9092", True),
        ("[::1]:9092", "[::]:9092", True),
        ("kafka:9092", "kafka:9092", True),
        ("localhost:9092", "localhost:19092", False),
        ("kafka:9092", "0.0.0.0:9092", False),
        ("10.0.0.7:9092", "127.0.0.1:9092", False),
        ("localhost:0", "localhost:0", False),
    ],
)
def test_a_listener_is_met_where_the_names_say_so(address: str, listen: str, same: bool) -> None:
    assert is_served_by(parse_endpoint(address), parse_endpoint(listen)) is same
