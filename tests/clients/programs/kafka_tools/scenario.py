"""The scenario with Kafka's own command-line tools, called by their main classes; TOOLS is the class path."""

from __future__ import annotations

import json
import os
import re
import subprocess

BOOTSTRAP = os.environ["BOOTSTRAP"]
PREFIX = os.environ["PREFIX"]
ORDERS = f"{PREFIX}-orders"
MOVES = f"{PREFIX}-moves"
GROUP = f"{PREFIX}-readers"
CODECS = os.environ["CODECS"].split(",")
JAVA = [os.environ["JAVA"], "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]
TOOLS = "org.apache.kafka.tools"
COUNT = 6 * len(CODECS) + 1


def tool(main: str, *arguments: str, given: str = "") -> str:
    """What one tool prints on stdout."""
    command = [*JAVA, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", os.environ["TOOLS"], main, *arguments]
    ran = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, timeout=90)
    if ran.returncode:
        raise SystemExit(f"{main} {' '.join(arguments)} ended with {ran.returncode}: {ran.stdout}")
    return ran.stdout


def to(main: str, *arguments: str, given: str = "") -> str:
    return tool(main, "--bootstrap-server", BOOTSTRAP, *arguments, given=given)


def consume(*arguments: str) -> dict[int, list[list[object]]]:
    """Offset and value of what the console consumer prints, by partition."""
    shown = ("partition", "offset", "value")
    properties = [word for name in shown for word in ("--property", f"print.{name}=true")]
    consumer = f"{TOOLS}.consumer.ConsoleConsumer"
    printed = to(consumer, "--topic", ORDERS, "--timeout-ms", "30000", *properties, *arguments)
    found: dict[int, list[list[object]]] = {}
    for partition, offset, value in re.findall(r"Partition:(\d+)\tOffset:(\d+)\t(.*)", printed):
        found.setdefault(int(partition), []).append([int(offset), value])
    return found


def offsets(when: str) -> dict[int, int]:
    printed = to(f"{TOOLS}.GetOffsetShell", "--topic", ORDERS, "--time", when)
    return {int(partition): int(offset) for partition, offset in re.findall(r":(\d+):(\d+)$", printed, re.MULTILINE)}


result: dict[str, object] = {}
replicas = os.environ["REPLICAS"]
topics = f"{TOOLS}.TopicCommand"
# All records of one tool go to one partition: it can't be told another.
to(topics, "--create", "--topic", ORDERS, "--partitions", "1", "--replication-factor", replicas)
described = to(topics, "--describe", "--topic", ORDERS)
result["described"] = re.findall(r"PartitionCount: (\d+)\s+ReplicationFactor: (\d+)", described)
versions = to(os.environ["API_VERSIONS"])
result["brokers"] = re.findall(r"^(\S+:\d+) \(id: \d+", versions, re.MULTILINE)
for codec in CODECS:
    settings = ["--topic", ORDERS, "--compression-codec", codec, "--producer-property", "acks=all"]
    lines = "".join(f"{codec} {number}\n" for number in range(6))
    to(os.environ["CONSOLE_PRODUCER"], *settings, given=lines)
settings = ["--topic", ORDERS, "--producer-property", "acks=0"]
to(os.environ["CONSOLE_PRODUCER"], *settings, given="nobody answers\n")
result["consumed"] = consume("--group", GROUP, "--from-beginning", "--max-messages", str(COUNT))
begins, ends = offsets("-2"), offsets("-1")
result["offsets"] = {partition: [begins[partition], ends[partition]] for partition in begins}

groups = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
patience = ("--timeout", "60000")
to(groups, *patience, "--group", GROUP, "--topic", ORDERS, "--reset-offsets", "--to-offset", "4", "--execute")
described = to(groups, *patience, "--group", GROUP, "--describe")
result["committed"] = re.findall(rf"{ORDERS}\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", described)
resumed = consume("--group", GROUP, "--max-messages", str(COUNT - 4))
result["resumed"] = {partition: found[0][0] for partition, found in resumed.items()}
quorum = to(f"{TOOLS}.MetadataQuorumCommand", "describe", "--status")
result["voters"] = len(re.findall(r'"id": \d+', re.findall(r"CurrentVoters:\s+(.*)", quorum)[0]))
to(topics, "--delete", "--topic", ORDERS)
result["deleted"] = ORDERS not in to(topics, "--list").split()
print(json.dumps(result))
