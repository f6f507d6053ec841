"""The values of a match: names with globs, numbers with ranges, lists of them, and `!` for "but not"."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from proxy.wire.names import ApiKey, parse_api_key

_RANGE = re.compile(r"(?P<low>\d+)-(?P<high>\d+)$")
_BOUND = re.compile(r"(?P<operator>>=|<=|>|<)\s*(?P<bound>\d+)$")
_INFINITY = 1 << 62


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the known word next to `word`, the empty string when none is near."""
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""


def _items(value: Any, what: str) -> list[Any]:
    items = value if isinstance(value, list) else [value]
    if not items:
        raise ValueError("an empty list matches nothing; leave the key out to match everything")
    for item in items:
        if isinstance(item, bool) or not isinstance(item, (str, int)):
            raise ValueError(f"{what} expected, got {item!r}")
        if item == "" or item == "!":
            raise ValueError(f"{what} expected, got an empty one")
    return items


class Selector:
    """One value of a match as it was written (`source`), ready to be asked."""

    __slots__ = ("source",)
    json_types: ClassVar[tuple[str, ...]] = ("string", "integer")

    def __init__(self, source: Any) -> None:
        self.source = source

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Selector) and other.source == self.source

    def __hash__(self) -> int:
        return hash(repr(self.source))

    def __repr__(self) -> str:
        return repr(self.source)

    @classmethod
    def __get_pydantic_core_schema__(cls, source_type: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def build(value: Any) -> Selector:
            return value if isinstance(value, cls) else cls(value)

        as_written = core_schema.plain_serializer_function_ser_schema(lambda chosen: chosen.source)
        return core_schema.no_info_plain_validator_function(build, serialization=as_written)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        one = [{"type": name} for name in cls.json_types]
        return {"anyOf": [*one, {"type": "array", "minItems": 1, "items": {"anyOf": one}}]}


class Names(Selector):
    """Texts by glob: matches when one wanted pattern does (or none is wanted) and no unwanted one does."""

    __slots__ = ("_unwanted", "_wanted")
    json_types = ("string",)

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        wanted: list[str] = []
        unwanted: list[str] = []
        for item in _items(source, "a name or a glob"):
            text = str(item)
            (unwanted if text.startswith("!") else wanted).append(text.removeprefix("!"))
        self._wanted = _any_glob(wanted)
        self._unwanted = _any_glob(unwanted)

    def __call__(self, text: str | None) -> bool:
        return self.among(text or "")

    def among(self, *texts: str) -> bool:
        """Whether one of the names of a thing is wanted and none is unwanted."""
        if self._unwanted is not None and any(map(self._unwanted, texts)):
            return False
        return self._wanted is None or any(map(self._wanted, texts))


def _any_glob(globs: list[str]) -> Callable[[str], object] | None:
    if not globs:
        return None
    return re.compile("|".join(fnmatch.translate(glob) for glob in globs)).match


class Numbers(Selector):
    """Numbers by value, `3-9`, `>=9`, `<=4`, `>3` or `<3`; with `!` in front all but those."""

    __slots__ = ("_unwanted", "_wanted")

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self._wanted: list[tuple[int, int]] = []
        self._unwanted: list[tuple[int, int]] = []
        for item in _items(source, "a number or a range"):
            if isinstance(item, int):
                self._wanted.append((item, item))
            else:
                target = self._unwanted if item.startswith("!") else self._wanted
                target.append(_interval(item.removeprefix("!").strip()))

    def __call__(self, number: int | None) -> bool:
        if number is None:
            return False
        if any(low <= number <= high for low, high in self._unwanted):
            return False
        return not self._wanted or any(low <= number <= high for low, high in self._wanted)


def _interval(text: str) -> tuple[int, int]:
    if re.fullmatch(r"-?\d+", text):
        return int(text), int(text)
    if found := _RANGE.match(text):
        low, high = int(found["low"]), int(found["high"])
        if low > high:
            raise ValueError(f"the range {text!r} is empty: {low} is above {high}")
        return low, high
    if found := _BOUND.match(text):
        bound = int(found["bound"])
        return {
            ">=": (bound, _INFINITY),
            ">": (bound + 1, _INFINITY),
            "<=": (-_INFINITY, bound),
            "<": (-_INFINITY, bound - 1),
        }[found["operator"]]
    raise ValueError(f"{text!r} is neither a number nor a range such as '3-9', '>=9' or '<=4'")


class ApiKeys(Selector):
    """Kafka's APIs by name, glob of names or number; `keys` are the numbers that are meant."""

    __slots__ = ("keys",)

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        wanted: set[int] = set()
        unwanted: set[int] = set()
        only_unwanted = True
        for item in _items(source, "an API's name or number"):
            negated = isinstance(item, str) and item.startswith("!")
            only_unwanted &= negated
            (unwanted if negated else wanted).update(_api_keys(item.removeprefix("!") if negated else item))
        everything = {int(key) for key in ApiKey}
        self.keys = frozenset((everything if only_unwanted else wanted) - unwanted)
        if not self.keys:
            raise ValueError("no API is left to match")


def _api_keys(item: str | int) -> set[int]:
    if isinstance(item, str) and any(sign in item for sign in "*?["):
        found = {int(key) for key in ApiKey if fnmatch.fnmatchcase(key.name.lower(), item.lower())}
        if not found:
            raise ValueError(f"no API's name matches {item!r}")
        return found
    return {int(parse_api_key(item))}


class ConnectionSelector(Selector):
    """A connection by its number in the order of acceptance (from 1, ranges too) or by client address (glob)."""

    __slots__ = ("_address", "_nth")

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        numbers: list[str | int] = []
        addresses: list[str | int] = []
        for item in _items(source, "a connection's number or address"):
            bare = str(item).removeprefix("!").strip()
            numeric = re.fullmatch(r"\d+(-\d+)?|(>=|<=|>|<)\s*\d+", bare) is not None
            (numbers if numeric else addresses).append(item)
        if numbers and addresses:
            raise ValueError("name connections either by number or by address, not both in one list")
        self._nth = Numbers(numbers) if numbers else None
        self._address = Names(addresses) if addresses else None

    def __call__(self, nth: int, client_addr: str) -> bool:
        if self._nth is not None:
            return self._nth(nth)
        assert self._address is not None
        return self._address.among(client_addr, client_addr.rpartition(":")[0])
