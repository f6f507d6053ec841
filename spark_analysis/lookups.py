"""What PySpark asks Java about Java's own classes, asked once; and each column is made once, however often it is said.

`F.coalesce(a, b)` asks what `functions` is, what its `coalesce` is, and hands a list over element by element, each a
message to Java and back: nine where one would do. An analysis says some ten thousand expressions, each of which is
the same call of the same parts in every analysis of a session but for a few constants. A column, a list of them and a
window never change, so what Java gave back for a call of such parts is that call's answer ever after.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import NoneType
from typing import Any

from py4j.java_gateway import JavaObject

# As PySpark's own code names them.
_WINDOW = "org.apache.spark.sql.expressions.Window"
_FUNCTIONS = ("functions", "org.apache.spark.sql.functions")
_SQL_UTILS, _UTILS = "PythonSQLUtils", "PythonUtils"
_MOST_MADE = 30_000
_AT_ONCE = 10  # `java.util.List.of` takes as many by themselves

_Key = tuple[Any, ...]


class _Made(JavaObject):  # type: ignore[misc]
    """A Java object that never changes, and that `_Memory` has: what its methods give back it has, too."""

    _memory: _Memory

    def __getattr__(self, name: str) -> Any:
        member = self._memory.remembering(super().__getattr__(name), self._target_id, name)
        self.__dict__[name] = member
        return member


class _Memory:
    """What was made of what, in one Java; calls of parts that it doesn't know are made each time."""

    def __init__(self) -> None:
        self._made: dict[_Key, Any] = {}

    def remembering(self, make: Callable[..., Any], *of: Any) -> Callable[..., Any]:
        """`make` (known by `of`), called once for the same parts; it must be one that has no other effect."""

        def asked(*parts: Any) -> Any:
            return self.recalled((*of, *map(_key, parts)), lambda: make(*parts))

        return asked

    def recalled(self, key: _Key, make: Callable[[], Any]) -> Any:
        """What was made by that key; a part of it that is None is nothing that could be known again."""
        if None in key:
            return make()
        found = self._made.get(key)
        if found is None:
            found = make()
            if type(found) is JavaObject:
                found.__class__ = _Made
                found._memory = self
            if len(self._made) >= _MOST_MADE:
                self._made.clear()
            self._made[key] = found
        return found


def _key(part: Any) -> Any:
    """By what a part of a call is known again; None for what isn't."""
    if isinstance(part, _Made):
        return part._target_id
    # Alike to Python, and not to Spark: 1, 1.0 and True.
    return (type(part), part) if isinstance(part, (str, int, NoneType)) else None


class _Known:
    """A Java class each of whose static members is looked up once; of those in `pure`, all if None, what they make."""

    def __init__(self, found: Any, memory: _Memory, name: str, pure: frozenset[str] | None = None) -> None:
        self._found = found
        self._memory = memory
        self._name = name
        self._pure = pure

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._found, name)
        if self._pure is None or name in self._pure:
            member = self._memory.remembering(member, self._name, name)
        self.__dict__[name] = member
        return member


class _SqlUtils(_Known):
    """Spark's PythonSQLUtils; the variables of lambdas are the same for all of those that lie equally deep."""

    def __init__(self, jvm: Any, memory: _Memory) -> None:
        super().__init__(getattr(jvm, _SQL_UTILS), memory, _SQL_UTILS, frozenset({"fn"}))
        self._variable = memory.remembering(
            lambda name, _depth: self._found.unresolvedNamedLambdaVariable(name), _SQL_UTILS, "variable"
        )
        self._lambda = memory.remembering(self._found.lambdaFunction, _SQL_UTILS, "lambda")
        self._open = threading.local()

    def unresolvedNamedLambdaVariable(self, name: str) -> Any:  # noqa: N802
        """A variable of the lambda that is being made; PySpark's first one is always called x."""
        depth = getattr(self._open, "depth", 0) + (name == "x")
        self._open.depth = depth
        return self._variable(name, depth)

    def lambdaFunction(self, body: Any, variables: Any) -> Any:  # noqa: N802
        """The innermost lambda is complete."""
        self._open.depth -= 1
        return self._lambda(body, variables)


class _Utils(_Known):
    """Spark's PythonUtils, which is handed lists in pieces of ten instead of one by one."""

    def __init__(self, jvm: Any, memory: _Memory) -> None:
        super().__init__(getattr(jvm, _UTILS), memory, _UTILS, frozenset())
        self._to_seq = self._found.toSeq
        self._list_of = jvm.java.util.List.of
        self._new_list = jvm.java.util.ArrayList

    def toSeq(self, values: Any) -> Any:  # noqa: N802
        """A Scala sequence of a Python list's values."""
        if not isinstance(values, list) or not values or any(value is None for value in values):
            return self._to_seq(values)
        return self._memory.recalled((_UTILS, *map(_key, values)), lambda: self._to_seq(self._list(values)))

    def _list(self, values: list[Any]) -> Any:
        if len(values) <= _AT_ONCE:
            return self._list_of(*values)
        whole = self._new_list()
        for first in range(0, len(values), _AT_ONCE):
            whole.addAll(self._list_of(*values[first : first + _AT_ONCE]))
        return whole


def remember(jvm: Any) -> None:
    """Let what PySpark asks through `jvm` (`SparkContext._jvm`) be answered without asking Java again, where it can."""
    seen = vars(jvm)
    if _UTILS in seen:
        return
    memory = _Memory()
    known: dict[str, _Known] = {_WINDOW: _Known(getattr(jvm, _WINDOW), memory, _WINDOW)}
    known |= dict.fromkeys(_FUNCTIONS, _Known(jvm.functions, memory, "functions"))
    known[_SQL_UTILS] = _SqlUtils(jvm, memory)
    known[_UTILS] = _Utils(jvm, memory)
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
