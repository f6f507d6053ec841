"""`/v1/elections`: partitions whose leader the proxy says is gone."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.responses import Response

from notleader.faults.election import Election, Move
from notleader.proxy.admin.problems import not_found
from notleader.proxy.admin.target import ControlledProxy
from notleader.proxy.wire.names import did_you_mean

Topic = Annotated[str, Field(min_length=1, max_length=249, description="The topic's name.")]


def _whole(value: object) -> object:
    """JSON knows no integers: 3.0 is one too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


PartitionIndex = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=2**31 - 1)]


class ElectionRequest(BaseModel):
    """Depose the leader of a partition."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"topic": "orders", "partition_index": 0, "for_ms": 2000}]},
    )

    topic: Topic
    partition_index: PartitionIndex
    for_ms: float = Field(2000.0, gt=0, le=86_400_000, description="How long there is no leader.")


class ElectionState(BaseModel):
    """A partition without a leader for a while, or one that is shown under another leader than its true one."""

    topic: str
    partition_index: int
    leader_id: int | None = Field(None, description="The broker shown to lead instead; null while nobody does.")
    started_us: int | None = Field(None, description="When it began, µs since the epoch; null for another leader.")
    until_us: int | None = Field(None, description="When it ends by itself; null: when it is ended, or its rule goes.")
    started_by: str = Field(description="The rule that began it, or `election` over HTTP.")
    kind: str = Field(description="That rule's kind.")


def make_router(proxy: ControlledProxy) -> APIRouter:
    """The routes over one proxy."""
    router = APIRouter(tags=["elections"])

    @router.get("/v1/elections")
    async def list_elections() -> list[ElectionState]:
        """The elections that last, and the partitions that are shown under another leader."""
        elections = proxy.plan.elections
        return [*map(_state, elections.list(proxy.now_us())), *map(_state, elections.moves())]

    @router.post("/v1/elections", status_code=201)
    async def start_election(wanted: ElectionRequest) -> ElectionState:
        """Depose a leader: Metadata names none, Produce and Fetch are refused, until it ends with a higher
        leader epoch. One that lasts there is overtaken. 404 where a broker says that there is no such partition.
        """
        await _ask_whether_it_is(proxy, wanted.topic, wanted.partition_index)
        started = proxy.plan.elections.start(wanted.topic, wanted.partition_index, wanted.for_ms, proxy.now_us())
        proxy.plan_changed()
        return _state(started)

    @router.delete("/v1/elections", status_code=204)
    async def end_elections(
        topic: Annotated[str | None, Query(min_length=1, max_length=249)] = None,
        partition_index: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
    ) -> Response:
        """Let the true leaders of a topic's partition, of a topic, or of all partitions lead again."""
        elections = proxy.plan.elections
        standing: tuple[Election | Move, ...] = (*elections.list(proxy.now_us()), *elections.moves())
        ended = [
            entry
            for entry in standing
            if topic in (None, entry.topic) and partition_index in (None, entry.partition_index)
        ]
        if not ended and (topic is not None or partition_index is not None):
            raise not_found("election", f"{topic or '*'}-{'*' if partition_index is None else partition_index}")
        for entry in ended:
            end = elections.end if isinstance(entry, Election) else elections.move_back
            end(entry.topic, entry.partition_index)
        proxy.plan_changed()
        return Response(status_code=204)

    return router


async def _ask_whether_it_is(proxy: ControlledProxy, topic: str, partition_index: int) -> None:
    """404 for a partition that is none; where no broker says what there is, an election may wait for its topic."""
    there = await proxy.topics()
    if there is None or partition_index in there.get(topic, ()):
        return
    if topic not in there:
        raise not_found("topic", topic, did_you_mean(topic, there))
    raise not_found("partition", f"{topic}-{partition_index}", f"; {topic} has {sorted(there[topic])}")


def _state(entry: Election | Move) -> ElectionState:
    fields: dict[str, Any] = entry._asdict()
    return ElectionState.model_validate(fields)
