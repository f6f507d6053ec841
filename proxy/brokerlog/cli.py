"""`notleader log read`: what is in the log, as Parquet, for the verdicts and for every tool that reads Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from notleader.proxy.brokerlog.reading import LogError, PartitionRead, list_topics, read_log
from notleader.proxy.config.extras import missing
from notleader.proxy.config.refusal import say_refused
from notleader.proxy.config.settings import ConfigError, SaslMechanism, Settings, load

log_app = typer.Typer(no_args_is_help=True, help="What is in the brokers' log, read past every proxy.")

errors = Console(stderr=True)

Kafka = Annotated[
    str,
    typer.Option(
        "--kafka", metavar="HOST:PORT[,…]", help="The brokers' own address, not the proxy's.", show_default=False
    ),
]
_TLS, _SASL = "TLS", "Authentication"
_TAB_S = 2


def _topics(context: typer.Context, incomplete: str) -> list[str]:
    """What the shell offers after `--topic` and Tab: topics of `--kafka` or NOTLEADER_KAFKA; none on any trouble."""
    given = {"connect_timeout_ms": _TAB_S * 1000, "kafka": context.params.get("kafka")}
    try:
        settings = load({name: value for name, value in given.items() if value is not None})
        names = list_topics(settings, timeout_s=_TAB_S)
    except (ConfigError, LogError, OSError):
        return []
    return [name for name in names if name.startswith(incomplete)]


@log_app.callback()
def log() -> None:
    """What is in the brokers' log, read past every proxy."""


@log_app.command("read")
def log_read(
    kafka: Kafka,
    topic: Annotated[
        list[str],
        typer.Option(
            "--topic",
            metavar="NAME",
            help="A topic, or a pattern as 'orders-*'; as often as needed.",
            autocompletion=_topics,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the Parquet goes, one file per partition.")],
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="ID", help="Of several runs with clusters of their own: whose log this is."),
    ] = None,
    value_is_id: Annotated[
        bool,
        typer.Option(
            "--value-is-id",
            help="A record without the header notleader-id has its value for an id, as with Kafka's verifiable "
            "producer. Without this, no value is looked at.",
        ),
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Give up a partition that stands still.")
    ] = 30.0,
    tls_kafka: Annotated[
        bool, typer.Option("--tls-kafka", help="Speak TLS to the brokers.", rich_help_panel="Switches")
    ] = False,
    tls_kafka_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Authorities that sign the brokers' certificates. Default: the system's.",
            rich_help_panel=_TLS,
        ),
    ] = None,
    tls_kafka_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Client certificate (PEM).", rich_help_panel=_TLS)
    ] = None,
    tls_kafka_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its private key.", rich_help_panel=_TLS)
    ] = None,
    tls_kafka_server_name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name asked for (SNI) and checked. Default: each broker's host.", rich_help_panel=_TLS
        ),
    ] = None,
    tls_kafka_verify: Annotated[
        bool, typer.Option(help="Check the brokers' certificates and names.", rich_help_panel="Switches")
    ] = True,
    sasl_mechanism: Annotated[
        SaslMechanism | None,
        typer.Option(
            "--sasl-mechanism",
            metavar="MECHANISM",
            help="How to log in: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.",
            rich_help_panel=_SASL,
        ),
    ] = None,
    sasl_username: Annotated[
        str | None,
        typer.Option("--sasl-username", metavar="NAME", help="As whom.", rich_help_panel=_SASL),
    ] = None,
    sasl_password_file: Annotated[
        Path | None,
        typer.Option(
            "--sasl-password-file",
            metavar="FILE",
            help="File with that user's password.",
            rich_help_panel=_SASL,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Read every record that is in the log of these topics now, up to the ends that they have at the start.

    Ids, key hashes, producer ids, sequences, transactions and their markers are written down; keys and values are not.
    A TLS or login setting that isn't given comes from the environment (NOTLEADER_TLS_KAFKA, …), as for `notleader run`.

    Exit codes: 0 everything was read; 1 something could not be read, which is said and is in the files;
    2 wrong use, no broker, no such topic.

    Example: notleader log read --kafka localhost:9092 --topic orders --out log/
    """
    if (line := missing("notleader log read", "capture")) is not None:
        say_refused(line, as_json=as_json)
        raise typer.Exit(2)
    given = {
        "kafka": kafka,
        "tls_kafka": tls_kafka or None,
        "tls_kafka_ca": tls_kafka_ca,
        "tls_kafka_cert": tls_kafka_cert,
        "tls_kafka_key": tls_kafka_key,
        "tls_kafka_server_name": tls_kafka_server_name,
        "tls_kafka_verify": None if tls_kafka_verify else False,
        "relay_sasl_mechanism": sasl_mechanism,
        "relay_sasl_username": sasl_username,
        "relay_sasl_password_file": sasl_password_file,
    }
    try:
        found = shown(
            load({name: value for name, value in given.items() if value is not None}),
            topic,
            out,
            quiet=as_json,
            run_id=run,
            value_is_id=value_is_id,
            timeout_s=timeout,
        )
    except ConfigError as error:
        say_refused("\n".join(f"{path}: {message}" for path, message in error.problems), as_json=as_json)
        raise typer.Exit(2) from error
    except LogError as error:
        say_refused(f"notleader: {error}", as_json=as_json)
        raise typer.Exit(2) from error
    except OSError as error:
        say_refused(f"notleader: cannot write to {out}: {error.strerror or error}", as_json=as_json)
        raise typer.Exit(2) from error
    if as_json:
        typer.echo(json.dumps({"out": str(out), **document(found)}))
    else:
        for line in told(found):
            typer.echo(line)
        typer.echo(f"written to {out}")
    raise typer.Exit(1 if any(one.problem for one in found) else 0)


def shown(settings: Settings, topics: list[str], out: Path, *, quiet: bool, **options: Any) -> list[PartitionRead]:
    """`read_log` with a bar on a terminal's stderr."""
    columns = (
        TextColumn("reading the log"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} offsets"),
    )
    with Progress(
        *columns, TimeElapsedColumn(), console=errors, transient=True, disable=quiet or not errors.is_terminal
    ) as bar:
        task = bar.add_task("log", total=0)
        return read_log(
            list(settings.kafka), topics, out, settings=settings, **options,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )  # fmt: skip


def document(found: list[PartitionRead]) -> dict[str, Any]:
    """What was read, by topic."""
    topics: dict[str, dict[str, Any]] = {}
    for one in found:
        about: dict[str, Any] = {"topic_id": one.topic_id, "cleanup_policy": one.cleanup_policy, "partitions": []}
        topics.setdefault(one.topic, about)["partitions"].append(one.as_dict())
    return {
        "records": sum(one.records for one in found),
        "topics": topics,
        "problems": [f"{one.topic}-{one.partition}: {one.problem}" for one in found if one.problem],
    }


def told(found: list[PartitionRead]) -> list[str]:
    """One line a partition, and what could not be read."""
    lines = []
    for one in found:
        extra = [f"{count:,} {kind}" for kind, count in one.transactions.items() if count]
        control = f", {one.control:,} control" if one.control else ""
        in_transactions = f" (in transactions: {', '.join(extra)})" if extra else ""
        where = f"offsets {one.start} to {one.end}" if one.end is not None else "no offsets"
        lines.append(
            f"{one.topic}-{one.partition}: {one.records:,} records{control}{in_transactions}, {where}"
            f"{f', {one.cleanup_policy}' if one.cleanup_policy else ''}"
        )
        if one.problem:
            lines.append(f"  could not be read whole: {one.problem}")
    return lines
