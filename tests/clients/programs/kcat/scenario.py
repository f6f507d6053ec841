"""The scenario with kcat, the command line of librdkafka, called as a shell script would call it."""

from __future__ import annotations

import json
import os
import subprocess

BOOTSTRAP = os.environ["BOOTSTRAP"]
ORDERS = f"{os.environ['PREFIX']}-orders"
MOVES = f"{os.environ['PREFIX']}-moves"
GROUP = f"{os.environ['PREFIX']}-readers"
CODECS = os.environ["CODECS"].split(",")


def kcat(*arguments: str, given: str = "") -> str:
    """What one call prints on stdout."""
    command = ["kcat", "-b", BOOTSTRAP, "-q", *arguments]
    return subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout


def records(*arguments: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in kcat("-J", "-u", *arguments).splitlines() if '"topic"' in line]


def read(topic: str, *arguments: str) -> dict[int, list[list[object]]]:
    """Offset and value of everything in a topic, by partition."""
    found: dict[int, list[list[object]]] = {}
    for record in records("-C", "-t", topic, "-o", "beginning", "-e", *arguments):
        found.setdefault(record["partition"], []).append([record["offset"], record["payload"]])
    return found


result: dict[str, object] = {}
told = json.loads(kcat("-L", "-J"))
result["brokers"] = [broker["name"] for broker in told["brokers"]]
for codec in CODECS:
    for number in range(6):
        value = f"{codec} {number}"
        kcat("-P", "-t", ORDERS, "-p", str(number % 2), "-z", codec, "-H", f"notleader-id={value}", given=value)
kcat("-P", "-t", ORDERS, "-p", "0", "-X", "acks=0", given="nobody answers")
found = read(ORDERS)
result["consumed"] = found
result["produced"] = {
    codec: [
        [number % 2, next(offset for offset, value in found[number % 2] if value == f"{codec} {number}")]
        for number in range(6)
    ]
    for codec in CODECS
}

# A group that commits where it stopped: seven records, then the rest.
count = 6 * len(CODECS) + 1
in_group = ["-G", GROUP, "-X", "auto.offset.reset=earliest", "-X", "enable.auto.offset.store=true"]
before = records(*in_group[:2], "-c", "7", *in_group[2:], ORDERS)
after = records(*in_group[:2], "-e", *in_group[2:], ORDERS)
result["in_group"] = len(before) + len(after)
result["each_once"] = len({record["payload"] for record in before + after}) == count

offsets: dict[int, list[int]] = {}
for partition in (0, 1):
    for when in ("-2", "-1"):
        answer = kcat("-Q", "-t", f"{ORDERS}:{partition}:{when}")
        offsets.setdefault(partition, []).append(int(answer.rsplit("offset", 1)[1]))
result["offsets"] = offsets

mover = ("-P", "-t", MOVES, "-p", "0", "-X", f"transactional.id={os.environ['PREFIX']}-mover")
kcat(*mover, given="moved 0\nmoved 1\n")
kcat(*mover, given="moved 2\n")
committed = read(MOVES, "-X", "isolation.level=read_committed")
result["transactions"] = [value for _, value in committed[0]]
print(json.dumps(result))
