"""Several programs as one command: `KAFKA ["TOPIC=PARTITIONS", …] -- ARGV … -- ARGV …`; it ends when all have ended.

The exit code is the first program's. The topics are made first, at Kafka itself, so that no fault meets that.
"""

from __future__ import annotations

import json
import subprocess
import sys

from notleader.proxy.lab.explore.tries import create_topic


def main(kafka: str, topics: str, *words: str) -> int:
    """Start all, wait for all."""
    for each in json.loads(topics):
        name, _, partitions = each.rpartition("=")
        create_topic(kafka, name, int(partitions))
    commands: list[list[str]] = []
    for word in words:
        if word == "--":
            commands.append([])
        else:
            commands[-1].append(word)
    codes = [child.wait() for child in [subprocess.Popen(argv) for argv in commands]]
    return codes[0]


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
