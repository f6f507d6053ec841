"""A plan as two workers see it: every question and answer is pickled, as between processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from weakref import WeakKeyDictionary

from notleader.faults.base import Connection
from notleader.faults.plan import Plan
from notleader.proxy.control.workers.answers import Answers
from notleader.proxy.control.workers.channel import pickled
from notleader.proxy.control.workers.memory import PLAN
from notleader.proxy.control.workers.plan import RemotePlan


class _Counts:
    """The shared counters, as far as a plan in this process has them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __getitem__(self, which: int) -> int:
        return self._plan.generation if which == PLAN else 0


class _View:
    """One worker's view."""

    def __init__(self, plan: Plan) -> None:
        plane = SimpleNamespace(plan=plan, latest=lambda now_us: now_us)
        self.answers = Answers(cast(Any, plane))
        self.plan = RemotePlan(self._ask, cast(Any, _Counts(plan)), plan.seed)

    def _ask(self, *question: object) -> Any:
        return _sent(self.answers(*_sent(question)))


def _sent(value: Any) -> Any:
    return pickle.loads(pickled(value))


_views: WeakKeyDictionary[Plan, tuple[_View, _View]] = WeakKeyDictionary()


def seen_by_a_worker(plan: Plan, connection: Connection) -> Plan:
    """The plan as the worker sees it that has this connection; every other one is another's."""
    views = _views.get(plan)
    if views is None:
        views = _views[plan] = _View(plan), _View(plan)
    view = views[connection.connection_id % 2]
    # A number stands for a listener and a node; scripts use some twice.
    view.answers.closed(connection.connection_id)
    return view.plan


Seen = Callable[[Plan, Connection], Plan]


def seen_here(plan: Plan, connection: Connection) -> Plan:
    """The plan itself."""
    return plan
