"""The values of a match: names with globs, numbers with ranges, lists of them, and `!` for "but not"."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import lru_cache
from typing import Any, ClassVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from notleader.faults.document import LARGEST_INT64
from notleader.proxy.wire.names import OLD_API_NAMES, ApiKey, parse_api_key

# What people write, as patterns that the JSON Schema and the parser share: \d would take digits of any script.
_NUMBER = re.compile(r"!?([0-9]+|[0-9]+-[0-9]+|(>=|<=|>|<) ?[0-9]+)")
_NAME = re.compile(r"[^!][\s\S]*|![\s\S]+")
_RANGE = re.compile(r"(?P<low>[0-9]+)-(?P<high>[0-9]+)")
_BOUND = re.compile(r"(?P<operator>>=|<=|>|<) ?(?P<bound>[0-9]+)")
_INTEGER: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": LARGEST_INT64}
_INFINITY = 1 << 64


def spelled(enum: type[IntEnum], others: Iterable[str]) -> re.Pattern[str]:
    """Matches the names of an enumeration as Kafka writes them or in small letters, old names, and its numbers."""
    names = {*(member.name for member in enum), *others}
    words = sorted(names | {name.lower() for name in names}) + [str(member.value) for member in enum]
    return re.compile("|".join(words))


def pattern_schema(pattern: re.Pattern[str]) -> dict[str, Any]:
    """The JSON Schema of a text that is all of this pattern."""
    return {"type": "string", "pattern": f"^({re.sub(r'[?]P<[a-z]+>', '', pattern.pattern)})$"}


def number_schema(enum: type[IntEnum]) -> dict[str, Any]:
    """The JSON Schema of a number of an enumeration."""
    numbers = sorted(member.value for member in enum)
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        return {"type": "integer", "minimum": numbers[0], "maximum": numbers[-1]}
    return {"type": "integer", "enum": numbers}


def _items(value: Any, what: str) -> list[Any]:
    items = value if isinstance(value, list) else [value]
    if not items:
        raise ValueError("an empty list matches nothing; leave the key out to match everything")
    for item in items:
        if isinstance(item, bool) or not isinstance(item, (str, int)):
            raise ValueError(f"{what} expected, got {item!r}")
        if isinstance(item, int) and abs(item) > LARGEST_INT64:
            raise ValueError(f"{what} expected, got {item}")
        if item == "" or item == "!":
            raise ValueError(f"{what} expected, got an empty one")
    return items


class Selector:
    """One value of a match as it was written (`source`), ready to be asked."""

    __slots__ = ("source",)
    forms: ClassVar[tuple[dict[str, Any], ...]]
    """What one item may be, as JSON Schema."""

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
            if isinstance(value, cls):
                return value
            if isinstance(value, (str, int)):
                return _shared(cls, value)  # type: ignore[arg-type]  # a class is hashable, whatever its instances are
            return cls(value)

        as_written = core_schema.plain_serializer_function_ser_schema(lambda chosen: chosen.source)
        return core_schema.no_info_plain_validator_function(build, serialization=as_written)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [*cls.forms, {"type": "array", "minItems": 1, "items": {"anyOf": [*cls.forms]}}]}


@lru_cache(maxsize=256, typed=True)
def _shared(kind: type[Selector], source: str | int) -> Selector:
    """One selector for rules that say the same, as a thousand of them mostly do."""
    return kind(source)


class Names(Selector):
    """Texts by glob: matches when one wanted pattern does (or none is wanted) and no unwanted one does."""

    __slots__ = ("_unwanted", "_wanted", "literals")
    forms = (pattern_schema(_NAME),)

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        wanted: list[str] = []
        unwanted: list[str] = []
        for item in _items(source, "a name or a glob"):
            if not isinstance(item, str):
                raise ValueError(f"text expected, got the number {item}: put it in quotes")
            (unwanted if item.startswith("!") else wanted).append(item.removeprefix("!"))
        self.literals: frozenset[str] | None = None if unwanted or _globbed(wanted) else frozenset(wanted)
        """The names themselves, where no pattern and no exception is among them."""
        self._wanted = _any_of(wanted) if self.literals is None else self.literals.__contains__
        self._unwanted = _any_of(unwanted)

    def __call__(self, text: str | None) -> bool:
        return self.among(text or "")

    def among(self, *texts: str) -> bool:
        """Whether one of the names of a thing is wanted and none is unwanted."""
        if self._unwanted is not None and any(map(self._unwanted, texts)):
            return False
        return self._wanted is None or any(map(self._wanted, texts))


def _globbed(names: list[str]) -> bool:
    return any(set(name) & set("*?[") for name in names)


def _any_of(names: list[str]) -> Callable[[str], object] | None:
    if not names:
        return None
    if not _globbed(names):
        return frozenset(names).__contains__
    return re.compile("|".join(fnmatch.translate(name) for name in names)).match


class Numbers(Selector):
    """Numbers from 0 on by value, `3-9`, `>=9`, `<=4`, `>3` or `<3`; with `!` in front all but those."""

    __slots__ = ("_unwanted", "_wanted")
    forms = (pattern_schema(_NUMBER), _INTEGER)

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self._wanted: list[tuple[int, int]] = []
        self._unwanted: list[tuple[int, int]] = []
        for item in _items(source, "a number or a range"):
            if isinstance(item, int):
                if item < 0:
                    raise ValueError(f"it is counted from 0, got {item}")
                self._wanted.append((item, item))
            else:
                target = self._unwanted if item.startswith("!") else self._wanted
                target.append(_interval(item.removeprefix("!")))

    def __call__(self, number: int | None) -> bool:
        if number is None:
            return False
        if any(low <= number <= high for low, high in self._unwanted):
            return False
        return not self._wanted or any(low <= number <= high for low, high in self._wanted)


def _interval(text: str) -> tuple[int, int]:
    if re.fullmatch(r"[0-9]+", text):
        return int(text), int(text)
    if found := _RANGE.fullmatch(text):
        low, high = int(found["low"]), int(found["high"])
        if low > high:
            raise ValueError(f"the range {text!r} is empty: {low} is above {high}")
        return low, high
    if found := _BOUND.fullmatch(text):
        bound = int(found["bound"])
        return {
            ">=": (bound, _INFINITY),
            ">": (bound + 1, _INFINITY),
            "<=": (-_INFINITY, bound),
            "<": (-_INFINITY, bound - 1),
        }[found["operator"]]
    raise ValueError(f"{text!r} is neither a number nor a range such as '3-9', '>=9' or '<=4'")


_API = spelled(ApiKey, OLD_API_NAMES)
_API_GLOB = re.compile(r"[A-Za-z0-9]*[*?\[][A-Za-z0-9*?!\[\]-]*")


class ApiKeys(Selector):
    """Kafka's APIs by name, glob of names or number; `keys` are the numbers that are meant."""

    __slots__ = ("keys",)
    one: ClassVar[dict[str, Any]] = pattern_schema(_API)
    """One API by name or number, as JSON Schema."""
    forms = (
        pattern_schema(re.compile(f"!?({_API.pattern}|{_API_GLOB.pattern})")),
        number_schema(ApiKey),
    )

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
    if isinstance(item, str) and _API_GLOB.fullmatch(item):
        found = {int(key) for key in ApiKey if fnmatch.fnmatchcase(key.name.lower(), item.lower())}
        if not found:
            raise ValueError(f"no API's name matches {item!r}")
        return found
    return {int(spelled_api(item))}


def spelled_api(item: str | int) -> ApiKey:
    """The API of a name or number as documents spell it; ValueError with the nearest name."""
    key = parse_api_key(item)
    if isinstance(item, str) and not _API.fullmatch(item):
        raise ValueError(f"{item!r} is not how an API is written: {key.name}")
    return key


class ConnectionSelector(Selector):
    """A connection by its number in the order of acceptance (from 1, ranges too) or by client address (glob)."""

    __slots__ = ("_address", "_nth")
    forms = (pattern_schema(_NAME), {**_INTEGER, "minimum": 1})

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        numbers: list[str | int] = []
        addresses: list[str | int] = []
        for item in _items(source, "a connection's number or address"):
            if isinstance(item, int) and item < 1:
                raise ValueError(f"connections are counted from 1, got {item}")
            (numbers if _NUMBER.fullmatch(str(item)) else addresses).append(item)
        if numbers and addresses:
            raise ValueError("name connections either by number or by address, not both in one list")
        self._nth = Numbers(numbers) if numbers else None
        self._address = Names(addresses) if addresses else None

    def __call__(self, nth: int, client_addr: str) -> bool:
        if self._nth is not None:
            return self._nth(nth)
        assert self._address is not None
        return self._address.among(client_addr, client_addr.rpartition(":")[0])
