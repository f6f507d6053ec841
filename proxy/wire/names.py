"""API keys and error codes by name, as people write them, and the name that a mistyped one is next to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TypeVar

from notleader.proxy.wire.enums import RETRIABLE_CODES, ApiKey, ErrorCode

__all__ = [
    "OLD_API_NAMES",
    "OLD_ERROR_NAMES",
    "RETRIABLE_CODES",
    "ApiKey",
    "ErrorCode",
    "api_name",
    "did_you_mean",
    "error_name",
    "error_text",
    "parse_api_key",
    "parse_error_code",
]

_API_NAMES = {int(each): each.name for each in ApiKey}
_ERROR_NAMES = {int(each): each.name for each in ErrorCode}

_E = TypeVar("_E", bound=IntEnum)

# Names of older Kafka releases, of the protocol guide's early pages and of librdkafka.
OLD_API_NAMES = {
    "ListClientMetricsResources": ApiKey.ListConfigResources,
    "GroupCoordinator": ApiKey.FindCoordinator,
    "ConsumerMetadata": ApiKey.FindCoordinator,
    "Offset": ApiKey.ListOffsets,
    "Offsets": ApiKey.ListOffsets,
}
OLD_ERROR_NAMES = {
    "UNKNOWN": ErrorCode.UNKNOWN_SERVER_ERROR,
    "INVALID_MESSAGE": ErrorCode.CORRUPT_MESSAGE,
    "UNKNOWN_TOPIC_OR_PART": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "INVALID_MESSAGE_SIZE": ErrorCode.INVALID_FETCH_SIZE,
    "INVALID_MSG_SIZE": ErrorCode.INVALID_FETCH_SIZE,
    "NOT_LEADER_FOR_PARTITION": ErrorCode.NOT_LEADER_OR_FOLLOWER,
    "MESSAGE_SIZE_TOO_LARGE": ErrorCode.MESSAGE_TOO_LARGE,
    "MSG_SIZE_TOO_LARGE": ErrorCode.MESSAGE_TOO_LARGE,
    "STALE_CTRL_EPOCH": ErrorCode.STALE_CONTROLLER_EPOCH,
    "GROUP_LOAD_IN_PROGRESS": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    "GROUP_COORDINATOR_NOT_AVAILABLE": ErrorCode.COORDINATOR_NOT_AVAILABLE,
    "CONSUMER_COORDINATOR_NOT_AVAILABLE": ErrorCode.COORDINATOR_NOT_AVAILABLE,
    "NOT_COORDINATOR_FOR_GROUP": ErrorCode.NOT_COORDINATOR,
    "NOT_COORDINATOR_FOR_CONSUMER": ErrorCode.NOT_COORDINATOR,
    "INVALID_TOPIC": ErrorCode.INVALID_TOPIC_EXCEPTION,
    "TOPIC_EXCEPTION": ErrorCode.INVALID_TOPIC_EXCEPTION,
    "OUT_OF_ORDER_SEQUENCE": ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
}


def api_name(api_key: int) -> str | None:
    """Kafka's name of an API, None where this build knows none."""
    return _API_NAMES.get(api_key)


def error_name(error_code: int) -> str | None:
    """Kafka's name of an error code, None where this build knows none."""
    return _ERROR_NAMES.get(error_code)


def error_text(error_code: int) -> str:
    """An error code for people: its name, or `error 999` where it has none."""
    return _ERROR_NAMES.get(error_code) or f"error {error_code}"


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the known word next to `word`, the empty string when none is near."""
    by_plain = {_plain(name): name for name in known}
    near = _nearest(_plain(word), by_plain)
    return _suggested(near and by_plain[near])


def _suggested(name: str) -> str:
    return f"; did you mean {name!r}?" if name else ""


def _nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    import difflib  # a tenth of a megabyte that nobody needs who makes no mistake

    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)), "")


def _parse(value: str | int, enum: type[_E], old: Mapping[str, _E], what: str) -> _E:
    if isinstance(value, str) and not value.strip().lstrip("-").isdecimal():
        by_name = {_plain(name): member for name, member in old.items()}
        by_name |= {_plain(member.name): member for member in enum}
        found = by_name.get(_plain(value))
        if found is not None:
            return found
        near = _nearest(_plain(value), by_name, 0.5)  # the long ones are often cut short
        raise ValueError(f"{value!r} is no {what}{_suggested(near and by_name[near].name)}")
    try:
        return enum(int(value))
    except ValueError:
        raise ValueError(f"{value} is no {what}") from None


def parse_api_key(value: str | int) -> ApiKey:
    """The API that a name or number means, in any case, old names too; ValueError with the nearest name."""
    return _parse(value, ApiKey, OLD_API_NAMES, "API key")


def parse_error_code(value: str | int) -> ErrorCode:
    """The error code that a name or number means, old names too; ValueError with the nearest name."""
    return _parse(value, ErrorCode, OLD_ERROR_NAMES, "error code")
