"""A filter language for capture rows, in the manner of Wireshark's display filters. Pure.

    api == Produce and topic == "orders" and error != 0 and latency_ms > 100

Fields of partitions are asked of one partition at a time: a row is accepted when the whole expression holds
for at least one of its partitions, or for the row alone where it has none. A comparison with a value that
is absent is false, whatever the operator; a field alone asks whether it is there and neither 0 nor empty.
"""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from notleader.proxy.capture.fields import FIELDS, Field, Kind, RowLike
from notleader.proxy.wire.names import ApiKey, ErrorCode, did_you_mean, parse_api_key, parse_error_code

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<number>-?\d+(?:\.\d+)?(?:us|ms|s|KiB|MiB|GiB|kB|MB|GB)?(?![\w.:-]))
    | (?P<word>[\w.:+*-]*[\w*])
    | (?P<sign>==|!=|<=|>=|<|>|=~|!~|&&|\|\||!|~|=|[(){},])
    )""",
    re.VERBOSE,
)
_SCALES: Final = {
    "us": 0.001, "ms": 1.0, "s": 1000.0,
    "kB": 1000, "MB": 1000**2, "GB": 1000**3, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
}  # fmt: skip
_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SYNONYMS: Final = {
    "=": "==", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "=~": "matches", "~": "matches", "&&": "and", "||": "or", "!": "not",
}  # fmt: skip
_DEEPEST: Final = 50  # each bracket or `not` within another takes a few of Python's calls, for each row
_TEXTUAL: Final = ("contains", "matches", "like")
_OPERATORS: Final = (*_COMPARE, "in", *_TEXTUAL)

Accepts = Callable[[Mapping[str, Any]], bool]
_Test = Callable[[RowLike, RowLike | None], bool]


class FilterError(Exception):
    """The text is no filter: what is wrong, and from where to where."""

    def __init__(self, message: str, text: str, start: int, end: int) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.start = start
        self.end = max(end, start + 1)

    def lines(self) -> list[str]:
        """The message, the text, and carets below the spot."""
        return [self.message, f"  {self.text}", "  " + " " * self.start + "^" * (self.end - self.start)]


class _Token(NamedTuple):
    kind: str
    value: str
    start: int
    end: int


def compile_filter(text: str) -> Accepts:
    """A test for rows (column → value); an empty text accepts all. Raises FilterError."""
    parser = _Parser(text)
    test = parser.parse()
    if test is None:
        return lambda row: True
    if not parser.of_partition:
        return lambda row: test(row, None)

    def accepts(row: RowLike) -> bool:
        partitions = row.get("partitions")
        if not partitions:
            return test(row, None)
        return any(test(row, partition) for partition in partitions)

    return accepts


def complete(text: str) -> list[str]:
    """What the last word of ``text`` may become: field names, operators, APIs, error codes."""
    head, word = re.fullmatch(r"(.*?)([\w.]*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    before = head.split()
    last = _SYNONYMS.get(before[-1], before[-1]) if before else ""
    if not before or last in ("and", "or", "not") or head.rstrip().endswith("("):
        options: Iterable[str] = FIELDS
    elif last in FIELDS:
        options = _OPERATORS
    elif last in _OPERATORS and len(before) > 1 and before[-2] in FIELDS:
        options = _names_of(FIELDS[before[-2]].kind)
    else:
        options = ("and", "or")
    return [head + option for option in options if option.lower().startswith(word.lower())]


def _names_of(kind: Kind) -> list[str]:
    if kind is Kind.API:
        return [key.name for key in ApiKey]
    return [code.name for code in ErrorCode] if kind is Kind.ERROR else []


class _Parser:
    """Recursive descent over the tokens; ``of_partition`` says whether some field is a partition's."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.of_partition = False
        self._depth = 0
        self._tokens = list(self._split())
        self._next = 0

    def parse(self) -> _Test | None:
        if self._peek().kind == "end":
            return None
        test = self._or()
        token = self._peek()
        if token.kind != "end":
            self._fail("'and' or 'or' expected here" if token.value != ")" else "no '(' before this ')'", token)
        return test

    # ---- tokens ---------------------------------------------------------------------------------

    def _split(self) -> Iterable[_Token]:
        position = 0
        end = len(self.text.rstrip())
        while position < end:
            found = _TOKEN.match(self.text, position)
            if found is None:
                start = position + len(self.text[position:]) - len(self.text[position:].lstrip())
                quoted = self.text[start] in "\"'"
                what = "this text has no closing quote" if quoted else f"{self.text[start]!r} means nothing here"
                raise FilterError(what, self.text, start, end if quoted else start + 1)
            kind = str(found.lastgroup)
            value = found[kind]
            yield _Token(kind, value, found.start(kind), found.end(kind))
            position = found.end()
        yield _Token("end", "", end, end + 1)

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def _keyword(self, *words: str) -> bool:
        """Take the next token if it is one of these (or a sign for it)."""
        token = self._peek()
        if token.kind in ("word", "sign") and _SYNONYMS.get(token.value, token.value) in words:
            self._next += 1
            return True
        return False

    def _fail(self, message: str, token: _Token) -> Any:
        raise FilterError(message, self.text, token.start, token.end)

    # ---- expressions ----------------------------------------------------------------------------

    def _or(self) -> _Test:
        tests = [self._and()]
        while self._keyword("or"):
            tests.append(self._and())
        if len(tests) == 1:
            return tests[0]
        return lambda row, partition: any(test(row, partition) for test in tests)

    def _and(self) -> _Test:
        tests = [self._not()]
        while self._keyword("and"):
            tests.append(self._not())
        if len(tests) == 1:
            return tests[0]
        return lambda row, partition: all(test(row, partition) for test in tests)

    def _not(self) -> _Test:
        token = self._peek()
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail(f"{_DEEPEST} brackets or 'not' within each other are the most", token)
        negated = self._keyword("not")
        test = self._not() if negated else self._primary()
        self._depth -= 1
        return (lambda row, partition: not test(row, partition)) if negated else test

    def _primary(self) -> _Test:
        token = self._take()
        if token.value == "(" and token.kind == "sign":
            test = self._or()
            closing = self._take()
            if closing.value != ")":
                self._fail("')' expected", closing)
            return test
        if token.kind == "end":
            self._fail("a field is missing here", token)
        if token.kind != "word":
            self._fail(f"a field expected, such as {', '.join(list(FIELDS)[:4])}", token)
        field = FIELDS.get(token.value)
        if field is None:
            self._fail(f"there is no field {token.value!r}{did_you_mean(token.value, FIELDS)}", token)
        assert field is not None
        self.of_partition |= field.of_partition
        return self._comparison(field)

    def _comparison(self, field: Field) -> _Test:
        token = self._peek()
        name = _SYNONYMS.get(token.value, token.value)
        negated = False
        if token.value == "!~":
            name, negated = "matches", True
        elif token.kind == "word" and name == "not" and self._tokens[self._next + 1].value == "in":
            self._next += 1
            name, negated = "in", True
        if name not in _OPERATORS or token.kind not in ("word", "sign"):
            if token.kind == "word" and token.value not in ("and", "or"):
                hint = did_you_mean(token.value, _OPERATORS)
                self._fail(f"{token.value!r} is no operator{hint or '; one of ' + ' '.join(_OPERATORS)}", token)
            if token.kind in ("text", "number"):
                self._fail("an operator is missing before this value", token)
            return _truth(field)
        self._next += 1
        if name in _TEXTUAL:
            test = self._textual(field, name, token)
        elif name == "in":
            test = _any_of(field, "==", frozenset(self._set(field)), lambda found, wanted: found in wanted)
        else:
            if name in ("<", "<=", ">", ">=") and field.kind in (Kind.TEXTS, Kind.API):
                self._fail(f"{field.name} has no order: use == or !=", token)
            test = _any_of(field, name, self._value(field), _COMPARE[name])
        return (lambda row, partition: not test(row, partition)) if negated else test

    def _textual(self, field: Field, name: str, token: _Token) -> _Test:
        if field.kind not in (Kind.TEXT, Kind.TEXTS):
            self._fail(f"{field.name} is {field.kind.value}: {name!r} is for text", token)
        value_token = self._take()
        if value_token.kind == "end":
            self._fail("a text is missing here", value_token)
        wanted = _unquoted(value_token)
        if name == "contains":
            return _any_of(field, name, wanted, lambda found, part: part in found)
        if name == "like":
            return _any_of(field, name, re.compile(fnmatch.translate(wanted)), lambda found, glob: glob.search(found))
        try:
            pattern = linear(wanted)
        except ValueError as error:
            self._fail(f"no regular expression: {error}", value_token)
        return _any_of(field, name, pattern, lambda found, search: search(found))

    def _set(self, field: Field) -> Iterable[Any]:
        opening = self._take()
        closing = {"{": "}", "(": ")"}.get(opening.value)
        if closing is None:
            self._fail("'{' expected: in {a, b}", opening)
        while True:
            yield self._value(field)
            token = self._take()
            if token.value == closing:
                return
            if token.value != ",":
                self._fail(f"',' or {closing!r} expected", token)

    # ---- values ---------------------------------------------------------------------------------

    def _value(self, field: Field) -> Any:
        token = self._take()
        if token.kind == "end" or (token.kind == "sign"):
            self._fail(f"{field.kind.value} is missing here", token)
        text = _unquoted(token)
        try:
            if field.kind is Kind.API:
                return int(parse_api_key(int(text) if token.kind == "number" else text))
            if field.kind is Kind.ERROR:
                return int(parse_error_code(int(text) if token.kind == "number" else text))
            if field.kind is Kind.TIME:
                return _time_us(token, text)
            if field.kind in (Kind.NUMBER, Kind.NUMBERS):
                return _number(text)
        except ValueError as error:
            expected = f"{field.name} is {field.kind.value}"
            self._fail(str(error) if field.kind in (Kind.API, Kind.ERROR) else f"{expected}, not {text!r}", token)
        return text


def linear(pattern: str) -> Callable[[str], bool]:
    """A search for a regular expression in time linear in the text (RE2's syntax: no look-around, no references).

    Filters come from strangers, and so do the names they meet: a search that backtracks could hold the proxy for ever.
    Raises ValueError.
    """
    import re2  # only who uses `matches` pays for it

    options = re2.Options()
    options.log_errors = False
    options.max_mem = 8 << 20
    try:
        compiled = re2.compile(pattern.encode("utf-8", "surrogateescape"), options)
    except re2.error as error:
        told = error.args[0] if error.args else error
        raise ValueError(told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)) from None
    return lambda text: compiled.search(text.encode("utf-8", "surrogateescape")) is not None


def _truth(field: Field) -> _Test:
    read = field.read
    return lambda row, partition: bool(read(row, partition))


def _any_of(field: Field, name: str, wanted: Any, compare: Callable[[Any, Any], Any]) -> _Test:
    """One value compared; of a list some element, or all of them for `!=`."""
    read = field.read
    if field.kind in (Kind.TEXTS, Kind.NUMBERS):
        quantifier = all if name == "!=" else any

        def test_list(row: RowLike, partition: RowLike | None) -> bool:
            found = read(row, partition)
            return found is not None and quantifier(compare(item, wanted) for item in found if item is not None)

        return test_list

    def test(row: RowLike, partition: RowLike | None) -> bool:
        found = read(row, partition)
        return found is not None and bool(compare(found, wanted))

    return test


def _unquoted(token: _Token) -> str:
    if token.kind != "text":
        return token.value
    return re.sub(r"\\(.)", r"\1", token.value[1:-1])


def _number(text: str) -> float | int:
    found = re.fullmatch(r"(-?\d+(?:\.\d+)?)(\w*)", text)
    if found is None:
        raise ValueError(text)
    number = float(found[1]) if "." in found[1] else int(found[1])
    if not found[2]:
        return number
    if found[2] not in _SCALES:
        raise ValueError(text)
    return number * _SCALES[found[2]]


def _time_us(token: _Token, text: str) -> int:
    if token.kind == "number" and text.lstrip("-").isdigit():
        return int(text)
    at = datetime.fromisoformat(text)
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1_000_000)
