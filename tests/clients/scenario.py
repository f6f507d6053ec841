"""What every client has to say of the scenario, which is the same for all of them.

Two topics. To the first, of two partitions, six records go with each compression, then one with acks=0; a
group reads them, commits offset 3 of partition 0 and 4 of partition 1, and begins there when it comes back.
The second is written in three transactions, of which one is aborted; the first moves the group to offset 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Result = dict[str, Any]

LAST = "nobody answers"
EVERYTHING = frozenset({"brokers", "produced", "consumed", "offsets", "resumed", "transactions", "committed"})


def expected(codecs: Sequence[str], says: frozenset[str], brokers: Sequence[str]) -> Result:
    """The members `says` of the result of a client that has these compressions and was told of these brokers."""
    values = {
        str(partition): [f"{codec} {number}" for codec in codecs for number in range(partition, 6, 2)]
        for partition in (0, 1)
    }
    values["0"].append(LAST)
    everything: Result = {
        "brokers": sorted(brokers),
        "produced": {
            codec: [[number % 2, 3 * turn + number // 2] for number in range(6)] for turn, codec in enumerate(codecs)
        },
        "consumed": {partition: [list(pair) for pair in enumerate(said)] for partition, said in values.items()},
        "offsets": {partition: [0, len(said)] for partition, said in values.items()},
        "resumed": {"0": 3, "1": 4},
        "committed": {"0": 5 if "transactions" in says else 3, "1": 4},
        "transactions": ["moved 0", "moved 1", "moved 2"],
        "shared": sorted(values["0"] + values["1"]),
    }
    return {name: value for name, value in everything.items() if name in says}


def expected_of_kcat(codecs: Sequence[str], nodes: int) -> Result:
    """What kcat says beyond that: its group reads seven records, then what is left."""
    return {"in_group": 6 * len(codecs) + 1, "each_once": True}


def expected_of_tools(codecs: Sequence[str], nodes: int) -> Result:
    """What Kafka's own tools say: the console producer has one partition only."""
    values = [f"{codec} {number}" for codec in codecs for number in range(6)] + [LAST]
    count = len(values)
    return {
        "described": [["1", str(nodes)]],
        "consumed": {"0": [list(pair) for pair in enumerate(values)]},
        "offsets": {"0": [0, count]},
        "committed": [["0", "4", str(count), str(count - 4)]],
        "resumed": {"0": 4},
        "voters": nodes,
        "deleted": True,
    }


def expected_without_commits(codecs: Sequence[str], nodes: int) -> Result:
    """What a client says whose OffsetCommit is of a version that Kafka 4 refuses: it begins again."""
    return {"resumed": {"0": 0, "1": 0}, "committed": {"0": -1, "1": -1}}


def expected_with_transactional_commits(codecs: Sequence[str], nodes: int) -> Result:
    """The same for a client whose transactions do commit."""
    return {"resumed": {"0": 0, "1": 0}, "committed": {"0": 5, "1": -1}}
