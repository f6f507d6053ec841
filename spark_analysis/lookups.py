"""What PySpark asks Java about Java's own classes, asked once: two of three calls that an expression takes are that.

`F.coalesce(a, b)` asks what `functions` is, what its `coalesce` is, and hands a list over element by element, each a
message to Java and back: nine where one would do. An analysis builds some ten thousand expressions, three thousand of
which are one of a few hundred columns and constants.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import NoneType
from typing import Any

# As PySpark's own code names them.
_CLASSES = ("org.apache.spark.sql.expressions.Window", "PythonSQLUtils")
_FUNCTIONS = ("functions", "org.apache.spark.sql.functions")
_UTILS = "PythonUtils"
_MOST_MADE = 10_000
_AT_ONCE = 10  # `java.util.List.of` takes as many by themselves


class _Known:
    """A Java class each of whose static members is looked up once."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._found, name)
        self.__dict__[name] = member
        return member


class _Functions(_Known):
    """Spark's functions, of which `col` and `lit` give back the column that they made of the same name or constant."""

    def __init__(self, jvm: Any) -> None:
        super().__init__(jvm.functions)
        self.col = _once(self._found.col)
        self.lit = _once(self._found.lit)


def _once(make: Any) -> Any:
    made: dict[tuple[type, Any], Any] = {}

    def asked(value: Any) -> Any:
        if not isinstance(value, (str, int, NoneType)):
            return make(value)
        key = (type(value), value)
        found = made.get(key)
        if found is None:
            if len(made) >= _MOST_MADE:
                made.clear()
            found = made[key] = make(value)
        return found

    return asked


class _Utils(_Known):
    """Spark's PythonUtils, which is handed lists in pieces of ten instead of one by one."""

    def __init__(self, jvm: Any) -> None:
        super().__init__(getattr(jvm, _UTILS))
        self._to_seq = self._found.toSeq
        self._list_of = jvm.java.util.List.of
        self._new_list = jvm.java.util.ArrayList

    def toSeq(self, values: Any) -> Any:  # noqa: N802
        """A Scala sequence of a Python list's values."""
        if not isinstance(values, list) or not values or any(value is None for value in values):
            return self._to_seq(values)
        if len(values) <= _AT_ONCE:
            return self._to_seq(self._list_of(*values))
        whole = self._new_list()
        for first in range(0, len(values), _AT_ONCE):
            whole.addAll(self._list_of(*values[first : first + _AT_ONCE]))
        return self._to_seq(whole)


def remember(jvm: Any) -> None:
    """Let PySpark's lookups through `jvm` (`SparkContext._jvm`) be answered without asking Java again."""
    seen = vars(jvm)
    if _UTILS in seen:
        return
    known = {name: _Known(getattr(jvm, name)) for name in _CLASSES}
    known |= dict.fromkeys(_FUNCTIONS, _Functions(jvm))
    known[_UTILS] = _Utils(jvm)
    seen.update(known)


@contextmanager
def let_go_later(client: Any) -> Iterator[None]:
    """While this lasts Java (by `client`, py4j's) is not told what Python has let go of: each is a message."""
    own = getattr(client, "finalizer_deque", None)
    if own is None:
        yield
        return
    waiting: deque[Any] = deque()
    client.finalizer_deque = waiting
    try:
        yield
    finally:
        client.finalizer_deque = own
        own.extendleft(waiting)
