"""`notleader analyze --kafka`: read the log of the topics in question, then hand it to the analysis."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from notleader.proxy.brokerlog.cli import shown, told
from notleader.proxy.brokerlog.reading import LogError
from notleader.proxy.config.settings import load

_SETTINGS = (
    "kafka", "tls_kafka", "tls_kafka_ca", "tls_kafka_cert", "tls_kafka_key", "tls_kafka_server_name",
    "relay_sasl_mechanism", "relay_sasl_username", "relay_sasl_password_file",
)  # fmt: skip


def with_log(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Arguments of `analyze` with `--log` in the place of `--kafka` and what belongs to it, and what to tell of it.

    Reads the log where `--kafka` is given, below `--out`. Raises LogError and ConfigError.
    """
    asked, rest = _of_kafka().parse_known_args(arguments)
    if asked.kafka is None:
        return list(arguments), []
    inputs = _of_analysis().parse_known_args(rest)[0]
    if inputs.out is None or "://" in inputs.out:
        raise LogError("the log is written below --out, a folder here: else use notleader log read and --log")
    outcomes = [Path(path) for path in inputs.outcomes if "://" not in path]
    topics = asked.topic or topics_of([Path(path) for path in inputs.capture if "://" not in path], outcomes)
    if not topics:
        raise LogError("neither the capture nor the outcomes name a topic: say --topic")
    given = {name: getattr(asked, name) for name in _SETTINGS if getattr(asked, name) is not None}
    if asked.no_tls_kafka_verify:
        given["tls_kafka_verify"] = False
    out = Path(inputs.out) / "log"
    found = shown(
        load(given),
        topics,
        out,
        quiet=inputs.json,
        value_is_id=asked.value_is_id or any(map(_is_verifiable, outcomes)),
        # What was named is there; what a capture names may have been deleted since.
        missing_ok=not asked.topic,
    )
    if not found:
        raise LogError(f"none of the topics {', '.join(topics)} is there at {asked.kafka}")
    return [*rest, "--log", str(out)], [line for line in told(found) if line.startswith(" ")]


def topics_of(captures: Iterable[Path], outcomes: Iterable[Path]) -> list[str]:
    """The topics that were produced to, by local captures and outcome lines."""
    import pyarrow.compute as pc
    import pyarrow.dataset

    topics: set[str] = set()
    for capture in captures:
        if not capture.exists():
            raise LogError(f"capture folder {capture} does not exist")
        captured = pyarrow.dataset.dataset(capture, format="parquet")
        if not captured.files:
            continue
        produced = captured.to_table(columns=["partitions"], filter=pc.field("api_name") == "Produce")
        places = produced["partitions"].combine_chunks().flatten()
        topics.update(pc.unique(pc.struct_field(places, "topic")).to_pylist())
    for file in _files(outcomes):
        with file.open(encoding="utf-8", errors="replace") as lines:
            topics.update(str(said["topic"]) for said in map(_said, lines) if _is_send(said) and said.get("topic"))
    return sorted(filter(None, topics))


def _is_send(said: dict[str, Any]) -> bool:
    return said.get("operation") in ("send", "produce", "publish") or str(said.get("name")).startswith("producer_send")


def _is_verifiable(outcomes: Path) -> bool:
    """Whether Kafka's verifiable producer wrote it: its records have no header, their values are their ids."""
    for file in _files([outcomes]):
        with file.open(encoding="utf-8", errors="replace") as lines:
            if any(str(_said(line).get("name")).startswith("producer_send") for line in lines):
                return True
    return False


def _files(paths: Iterable[Path]) -> list[Path]:
    return [file for path in paths for file in (path.iterdir() if path.is_dir() else [path]) if file.is_file()]


def _said(line: str) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _of_kafka() -> argparse.ArgumentParser:
    """What is this module's; the help is the analysis' own, which lists them."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, prog="notleader analyze")
    parser.add_argument("--kafka")
    parser.add_argument("--topic", nargs="+", action="extend", default=[])
    parser.add_argument("--value-is-id", action="store_true")
    parser.add_argument("--tls-kafka", action="store_const", const=True)
    parser.add_argument("--no-tls-kafka-verify", action="store_true")
    for name in ("ca", "cert", "key", "server-name"):
        parser.add_argument(f"--tls-kafka-{name}")
    for name in ("mechanism", "username", "password-file"):
        parser.add_argument(f"--sasl-{name}", f"--relay-sasl-{name}", dest=f"relay_sasl_{name.replace('-', '_')}")
    return parser


def _of_analysis() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, prog="notleader analyze")
    for name in ("--capture", "--outcomes"):
        parser.add_argument(name, nargs="+", action="extend", default=[])
    parser.add_argument("--out")
    parser.add_argument("--json", action="store_true")
    return parser
