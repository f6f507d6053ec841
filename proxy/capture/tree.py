"""One exchange as a tree: what its row says and, at payload level, its frames taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.names import error_text
from notleader.proxy.wire.printable import printable
from notleader.proxy.wire.records import iter_batches, iter_records
from notleader.proxy.wire.view import Request, Response

if TYPE_CHECKING:
    from rich.tree import Tree

_MOST_BYTES: Final = 64
_MOST_RECORDS: Final = 100


def document(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row without what is absent, times readable, and the frames decoded as ``request`` and ``response``."""
    told: dict[str, Any] = {}
    for name, value in row.items():
        if value is None or value == [] or name in ("effects", "request_frame", "response_frame", "partitions"):
            continue
        told[name] = f"{datetime.fromtimestamp(value / 1e6, UTC):%Y-%m-%d %H:%M:%S.%f}" if "_at_us" in name else value
    if row.get("error_code"):
        told["error_code"] = f"{row['error_code']} {error_text(row['error_code'])}"
    for name in ("effects", "partitions"):
        if row.get(name):
            told[name] = [{key: value for key, value in one.items() if value is not None} for one in row[name]]
    if row.get("request_frame") is not None:
        told.update(frames_of(row["request_frame"], row.get("response_frame")))
    return told


def tree(row: Mapping[str, Any]) -> Tree:
    """The document of a row, drawn."""
    told = document(row)
    label = f"{told.get('api_name', told['event'])}"
    from rich.tree import Tree  # five MiB, which the proxy has no use for: it asks for `frames_of` alone

    drawn = Tree(f"[bold]{label}[/bold] {_text(told.get('client_id', ''))}".rstrip())
    _grow(drawn, told)
    return drawn


def frames_of(request_frame: bytes, response_frame: bytes | None) -> dict[str, Any]:
    """Both messages with Kafka's field names, as plain data; in place of one that can't be read, why."""
    try:
        request = Request(request_frame)
        found = {"request": {**request.header._asdict(), "body": _readable(request.body)}}
        if response_frame is not None:
            found["response"] = {"body": _readable(Response(response_frame, request).body)}
    except WireError as error:
        return {"request": f"not read: {error.reason}"}
    return found


def _readable(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _readable(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_readable(item, name) for item in value]
    if isinstance(value, (bytes, memoryview)):
        return _records(memoryview(value)) if name == "records" else _shown(bytes(value))
    if name == "error_code" and isinstance(value, int):
        return f"{value} {error_text(value)}"
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _records(records: memoryview) -> Any:
    """Batches with their records, as far as they can be read."""
    try:
        batches = [batch._asdict() | {"records": []} for batch in iter_batches(records)]
        by_start = {batch["start"]: batch["records"] for batch in batches}
        for number, record in enumerate(iter_records(records)):
            if number == _MOST_RECORDS:
                break
            by_start[record.batch.start].append(
                {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": None if record.key is None else _shown(record.key),
                    "value": None if record.value is None else _shown(record.value),
                    "headers": {key: None if value is None else _shown(value) for key, value in record.headers},
                }
            )
    except WireError as error:
        return f"{len(records)} bytes not read: {error.reason}"
    return batches


def _shown(data: bytes) -> str:
    """Text where it is text, hexadecimal where it is not; the beginning of what is long."""
    more = f" … ({len(data)} bytes)" if len(data) > _MOST_BYTES else ""
    try:
        text = data[:_MOST_BYTES].decode()
        if text.isprintable():
            return text + more
    except UnicodeDecodeError:
        pass
    return f"0x{data[:_MOST_BYTES].hex()}{more}"


def _grow(branch: Tree, value: Any) -> None:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, (dict, list)):
            if item:
                _grow(branch.add(f"[cyan]{key}[/cyan]"), item)
            else:
                branch.add(f"[cyan]{key}[/cyan]: \\[]")
        else:
            branch.add(f"[cyan]{key}[/cyan]: {_text(item)}")


def _text(value: Any) -> str:
    """A value as text that neither Rich nor the terminal takes for a command."""
    return printable(str(value)).replace("[", "\\[")
