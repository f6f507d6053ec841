"""What the Python programs share: the plan of the scenario and the result they print."""

from __future__ import annotations

import json
import os

BOOTSTRAP = os.environ["BOOTSTRAP"]
ORDERS = f"{os.environ['PREFIX']}-orders"
MOVES = f"{os.environ['PREFIX']}-moves"
GROUP = f"{os.environ['PREFIX']}-readers"
TRANSACTIONAL_ID = f"{os.environ['PREFIX']}-mover"
CODECS = os.environ["CODECS"].split(",")
REPLICAS = int(os.environ["REPLICAS"])
LAST = "nobody answers"
# Where each partition's second reader has to begin.
COMMITTED = {0: 3, 1: 4}
# Six per codec over two partitions, and one that is sent with acks=0.
RECORDS = 6 * len(CODECS) + 1


def planned(codec: str) -> list[tuple[int, str]]:
    """Partition and value of the records to send with this codec."""
    return [(number % 2, f"{codec} {number}") for number in range(6)]


def finish(result: dict[str, object]) -> None:
    """Print the result, the only thing on stdout."""
    print(json.dumps(result), flush=True)
