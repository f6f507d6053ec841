"""All settings of ``notleader run``, stated once; flags, environment and the YAML file fill them.

A flag beats an environment variable (``NOTLEADER_…``), which beats the file, which beats the default.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_args

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from notleader.faults.base import Fault
from notleader.faults.schema import FaultDocumentError, Problem, parse_faults
from notleader.faults.timeline import Timeline, parse_timeline
from notleader.faults.waiting import waits_in_vain
from notleader.proxy.config.yaml_text import lines_of, parse_yaml
from notleader.proxy.record.redaction import Redaction
from notleader.proxy.record.rows import Level
from notleader.proxy.wire.endpoint import Endpoint, is_served_by, parse_endpoint
from notleader.proxy.wire.errors import in_words
from notleader.proxy.wire.names import did_you_mean

ENVIRONMENT_PREFIX = "NOTLEADER_"
_MOST_S = 10 * 365 * 86_400
# Of any other setting an empty variable says nothing, as compose's ${CAPTURE:-} has it.
_OFF_WHEN_EMPTY = "admin"
_VARIABLES = {"admin_token": "NOTLEADER_TOKEN"}  # the one that `notleader fault` reads too


def _endpoint(value: Any) -> Any:
    if isinstance(value, str):
        return parse_endpoint(value)
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(f"{value} is not HOST:PORT; a port of the loopback address is ':{value}'")
    return value


def _endpoints(value: Any) -> Any:
    if isinstance(value, str):
        value = [part for part in value.split(",") if part.strip()]
    if isinstance(value, int):
        value = [value]
    if isinstance(value, list):
        if not value:
            raise ValueError("at least one HOST:PORT is needed")
        return [_endpoint(part) for part in value]
    return value


def _optional_endpoint(value: Any) -> Any:
    if isinstance(value, str) and value.lower() in ("none", "off", ""):
        return None
    return _endpoint(value)


def _names(value: Any) -> Any:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _ports(value: Any) -> Any:
    """``9101``: from there on; ``9101,9105``: these first."""
    if isinstance(value, str):
        value = value.split(",")
    if isinstance(value, int):
        value = [value]
    if isinstance(value, list):
        return [int(part) for part in value]
    return value


def _rules(value: Any) -> Any:
    if isinstance(value, str):
        value = [part for part in value.split(",") if part.strip()]
    if isinstance(value, list):
        Redaction(value)
    return value


_Text = PlainSerializer(lambda value: None if value is None else str(value))
OneEndpoint = Annotated[Endpoint, BeforeValidator(_endpoint), _Text]


class LogFormat(StrEnum):
    """How log lines are written."""

    TEXT = "text"
    JSON = "json"


class SaslMechanism(StrEnum):
    """How the proxy can authenticate itself."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class Settings(BaseModel):
    """What a proxy needs to know."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    kafka: Annotated[list[Endpoint], BeforeValidator(_endpoints), PlainSerializer(lambda v: [str(e) for e in v])] = (
        Field(description="Bootstrap addresses of the real cluster, tried in order. Needed, here or in the file.")
    )
    listen: OneEndpoint = Field(
        default=Endpoint("127.0.0.1", 9092),
        description="Where clients bootstrap. Brokers get the ports after it. Port 0 picks free ones.",
    )
    admin: Annotated[Endpoint | None, BeforeValidator(_optional_endpoint), _Text] = Field(
        default=Endpoint("127.0.0.1", 8474), description="Where the HTTP API listens; 'none' turns it off."
    )
    admin_token: str | None = Field(
        default=None,
        description="Bearer token the HTTP API asks for; needed when it listens beyond loopback. On a command line "
        "every user of the machine can read it: NOTLEADER_TOKEN is the better place.",
        json_schema_extra={"secret": True},
    )
    admin_hosts: Annotated[list[str], BeforeValidator(_names)] = Field(
        default_factory=list,
        description="Further names by which the HTTP API may be called, as the Host header has them.",
    )
    traces: str | None = Field(
        default=None,
        pattern=r"^https?://",
        description="Send a span per exchange to this OpenTelemetry collector (http://host:4318); extra: otel.",
    )
    broker_ports: Annotated[list[int] | None, BeforeValidator(_ports)] = Field(
        default=None,
        description="Ports of the brokers' listeners in order of node id: FIRST, or a list FIRST,SECOND,…",
    )
    advertise: str | None = Field(
        default=None,
        description="Host name that clients are told to connect to; the address they reached us by when absent.",
    )
    proxy_protocol: bool = Field(
        default=False,
        description="Expect a PROXY protocol header, version 2, before each connection; it says who the client is.",
    )
    capture: str | None = Field(
        default=None,
        min_length=1,
        description="Record the traffic below this folder or URL (s3://bucket/prefix, …), as Parquet.",
    )
    capture_root: Annotated[list[str], BeforeValidator(_names)] = Field(
        default_factory=list,
        description="Folders and URLs below which POST /v1/capture may record too, beside --capture: DIR, or DIR,DIR,…",
    )
    capture_level: Level = Field(
        default=Level.PARTITION,
        description="How much is recorded: header, partition, record (message ids) or payload (whole frames).",
    )
    capture_rotate_s: float = Field(
        default=10.0, gt=0, le=_MOST_S, description="A segment of the capture is finished at least this often."
    )
    capture_rotate_bytes: int = Field(
        default=128 << 20, ge=1 << 16, description="A segment is finished early at this size (before compression)."
    )
    capture_keep_s: float | None = Field(
        default=None,
        gt=0,
        le=_MOST_S,
        description="Segments there, of all proxies, that are older than this are deleted.",
    )
    capture_keep_bytes: int | None = Field(
        default=None,
        ge=1 << 16,
        description="The oldest segments there, of all proxies, are deleted beyond this size together.",
    )
    capture_queue_bytes: int = Field(
        default=64 << 20, ge=1 << 20, description="What may wait for the disk, in memory; more is dropped and told."
    )
    capture_redact: Annotated[list[str], BeforeValidator(_rules)] = Field(
        default_factory=list,
        description="What the capture must not tell: field:NAME=hash, topic:GLOB=drop, header:NAME=drop, …",
    )
    capture_spool_bytes: int = Field(
        default=1 << 30, ge=1 << 20, description="What may wait in the spool for a remote store; more is lost and told."
    )
    capture_journal_bytes: int = Field(
        default=1 << 30,
        ge=1 << 20,
        description="What may lie in journals that the recorder has made no segments of; more is lost and told.",
    )
    capture_stop_s: float = Field(
        default=20.0,
        ge=0,
        le=_MOST_S,
        description="How long ending waits for the last segment; what is none by then stays in its journal.",
    )
    capture_spool: Path | None = Field(
        default=None,
        description="Where segments for a remote capture grow; ~/.local/state/notleader/spool when absent.",
    )
    log_format: LogFormat = Field(
        default=LogFormat.TEXT, description="How stderr is written: text, or json (one object per line)."
    )
    seed: int = Field(
        default_factory=lambda: secrets.randbelow(2**31),
        ge=-(2**63),
        le=2**63 - 1,
        description="Seed of every random decision; drawn and recorded when absent.",
    )
    workers: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Processes that carry the traffic, all on the same ports, under one control plane. Linux.",
    )
    connect_timeout_ms: int = Field(
        default=10_000, gt=0, description="How long connecting to a broker may take, in ms."
    )
    max_frame_bytes: int = Field(
        default=100 << 20, ge=1 << 10, description="A longer request or answer closes its connection."
    )
    proxy_id: str = Field(
        default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}",
        pattern=r"^[A-Za-z0-9._-]+$",
        description="Name of this proxy in the capture.",
    )
    tls_cert: Path | None = Field(default=None, description="Serve TLS to clients with this certificate chain (PEM).")
    tls_key: Path | None = Field(default=None, description="Private key of --tls-cert, when it is a file of its own.")
    tls_client_ca: Path | None = Field(
        default=None, description="Ask clients for a certificate that one of these authorities signed."
    )
    tls_kafka: bool = Field(default=False, description="Speak TLS to the brokers.")
    tls_kafka_ca: Path | None = Field(
        default=None, description="Authorities that sign the brokers' certificates; the system's when absent."
    )
    tls_kafka_cert: Path | None = Field(default=None, description="Client certificate shown to the brokers (PEM).")
    tls_kafka_key: Path | None = Field(default=None, description="Private key of --tls-kafka-cert.")
    tls_kafka_server_name: str | None = Field(
        default=None, description="Name asked for (SNI) and checked; each broker's own host when absent."
    )
    tls_kafka_verify: bool = Field(default=True, description="Check the brokers' certificates and names.")
    relay_sasl_mechanism: SaslMechanism | None = Field(
        default=None,
        description="How the proxy itself authenticates where it relays to a leader that was moved: PLAIN, "
        "SCRAM-SHA-256 or SCRAM-SHA-512.",
    )
    relay_sasl_username: str = Field(default="", description="As whom; what is relayed is done in this name.")
    relay_sasl_password_file: Path | None = Field(default=None, description="File with that user's password.")
    # Documents, or what `load` has made of them.
    faults: Any = Field(default_factory=list, description="Fault rules, see `notleader fault kinds`.")
    steps: Any = Field(default_factory=list, description="Timeline: rules added and removed by time or hits.")

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        annotation = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and not {int, float, list[int]}.isdisjoint((annotation, *get_args(annotation))):
            raise ValueError(f"a number expected, got {str(value).lower()}")
        return value

    def parsed_faults(self) -> list[Fault]:
        """The rules. Raises FaultDocumentError with every problem."""
        return parse_faults(self.faults)

    def parsed_timeline(self) -> Timeline | None:
        """The timeline, None without steps. Raises FaultDocumentError with every problem."""
        return parse_timeline(self.steps) if self.steps else None


# What means nothing without another setting, with the flag that gives that one, and what is so without.
_NEEDS = {
    "tls_key": ("tls_cert", "--tls-cert FILE", "clients are served in plaintext"),
    "tls_client_ca": ("tls_cert", "--tls-cert FILE", "clients are served in plaintext"),
    "tls_kafka_ca": ("tls_kafka", "--tls-kafka", "the brokers are spoken to in plaintext"),
    "tls_kafka_cert": ("tls_kafka", "--tls-kafka", "the brokers are spoken to in plaintext"),
    "tls_kafka_key": ("tls_kafka_cert", "--tls-kafka-cert FILE", "the brokers are shown no certificate"),
    "tls_kafka_server_name": ("tls_kafka", "--tls-kafka", "the brokers are spoken to in plaintext"),
    "tls_kafka_verify": ("tls_kafka", "--tls-kafka", "the brokers are spoken to in plaintext"),
}


class ConfigError(Exception):
    """The settings can't be used; ``problems`` says where and why, one entry each."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{problem.path}: {problem.message}" for problem in problems))
        self.problems = problems


def load(flags: dict[str, Any], file: Path | None = None, *, need_kafka: bool = True) -> Settings:
    """Settings from flags (absent ones left out), the environment and a YAML file.

    Raises ConfigError with every problem found, rules and timeline included.
    """
    values: dict[str, Any] = {}
    if file is not None:
        values.update(read_yaml(file))
    for name in Settings.model_fields:
        own = ENVIRONMENT_PREFIX + name.upper()
        for variable in (own, _VARIABLES.get(name, own)):
            if (told := os.environ.get(variable)) or (told is not None and name == _OFF_WHEN_EMPTY):
                values[name] = told
    values.update(flags)
    if not need_kafka:
        values.setdefault("kafka", "127.0.0.1:9092")
    problems: list[Problem] = []
    settings = None
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        problems += [_problem(entry) for entry in error.errors()]
    if settings is not None and need_kafka:
        problems += [_itself(address) for address in settings.kafka if is_served_by(address, settings.listen)]
    if settings is not None:
        problems += _without_effect(settings)
    faults: list[Fault] = []
    try:
        faults = parse_faults(values.get("faults", []))
    except FaultDocumentError as error:
        problems += error.problems
    # A timeline keeps count of what it has done: each proxy makes its own of the documents.
    try:
        parse_timeline(values.get("steps") or [])
    except FaultDocumentError as error:
        problems += error.problems
    problems += waits_in_vain(values.get("faults"), values.get("steps"))
    if problems or settings is None:
        raise ConfigError(problems)
    return settings.model_copy(update={"faults": faults})


def read_yaml(file: Path) -> dict[str, Any]:
    """A YAML (or JSON) mapping. Raises ConfigError."""
    try:
        document = parse_yaml(file.read_text("utf-8"))
    except OSError as error:
        raise ConfigError([Problem(str(file), in_words(error))]) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = getattr(error, "problem_mark", None)
        place = f"{file}:{where.line + 1}:{where.column + 1}" if where else str(file)
        raise ConfigError([Problem(place, f"not valid YAML: {getattr(error, 'problem', error)}")]) from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError([Problem(str(file), "a mapping of settings is expected at the top")])
    return {str(key): value for key, value in document.items()}


def located(problems: Iterable[Problem], file: Path | None, apart: Iterable[str] = ()) -> list[str]:
    """A line for each, behind FILE:LINE where the file says it; `apart`: settings that the file does not decide."""
    line_of = lines_in(file)

    def told(problem: Problem) -> str:
        said = f"{problem.path}: {problem.message}"
        if re.split(r"[.\[]", problem.path, maxsplit=1)[0] in apart or (line := line_of(problem.path)) is None:
            return said
        return f"{file}:{line}: {said}"

    return [told(problem) for problem in problems]


def lines_in(file: Path | None) -> Callable[[str], int | None]:
    """Which line of a file says what a problem's path names; of a file that can't be read none does."""
    try:
        return lines_of(file.read_text("utf-8") if file is not None else "")
    except (OSError, UnicodeDecodeError):
        return lines_of("")


def _itself(address: Endpoint) -> Problem:
    said = f"at {address} the proxy itself would listen, and be its own client: --listen HOST:PORT takes another port"
    return Problem("kafka", said)


def _without_effect(settings: Settings) -> list[Problem]:
    """What was set to another value than its default, and needs a setting that nobody gave; an explicit one stands."""
    return [
        Problem(name, f"needs {needed}: without it {so}; give {flag} too")
        for name, (needed, flag, so) in _NEEDS.items()
        if getattr(settings, name) != Settings.model_fields[name].default
        and (getattr(settings, needed) is None or needed not in settings.model_fields_set)
    ]


def _problem(entry: Any) -> Problem:
    path = ".".join(str(part) for part in entry["loc"])
    if entry["type"] == "missing" and path == "kafka":
        return Problem("kafka", "say where the real cluster is: --kafka HOST:PORT")
    if entry["type"] == "extra_forbidden":
        return Problem(path, f"no such setting{did_you_mean(path, Settings.model_fields)}")
    return Problem(path, entry["msg"].removeprefix("Value error, "))
