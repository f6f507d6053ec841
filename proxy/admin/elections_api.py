"""`/v1/elections`: partitions whose leader the proxy says is gone."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from faults.election import Election
from proxy.admin.problems import not_found
from proxy.admin.target import ControlledProxy

Topic = Annotated[str, Field(min_length=1, max_length=249, description="The topic's name.")]
PartitionIndex = Annotated[int, Field(ge=0, le=2**31 - 1)]


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
    """An election that lasts."""

    topic: str
    partition_index: int
    started_us: int = Field(description="When it began, µs since the epoch.")
    until_us: int = Field(description="When it ends by itself.")
    started_by: str = Field(description="The rule that began it, or `election` over HTTP.")


def make_router(proxy: ControlledProxy) -> APIRouter:
    """The routes over one proxy."""
    router = APIRouter(tags=["elections"])

    @router.get("/v1/elections")
    async def list_elections() -> list[ElectionState]:
        """The elections that last."""
        return [_state(election) for election in proxy.plan.elections.list(proxy.now_us())]

    @router.post("/v1/elections", status_code=201)
    async def start_election(wanted: ElectionRequest) -> ElectionState:
        """Depose a leader: Metadata names none, Produce and Fetch are refused, until it ends with a higher
        leader epoch. One that lasts there is overtaken.
        """
        started = proxy.plan.elections.start(wanted.topic, wanted.partition_index, wanted.for_ms, proxy.now_us())
        proxy.plan_changed()
        return _state(started)

    @router.delete("/v1/elections", status_code=204)
    async def end_elections(
        topic: Annotated[str | None, Query(min_length=1, max_length=249)] = None,
        partition_index: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
    ) -> Response:
        """End the elections of a topic's partition, of a topic, or all of them."""
        elections = proxy.plan.elections
        ended = [
            election
            for election in elections.list(proxy.now_us())
            if topic in (None, election.topic) and partition_index in (None, election.partition_index)
        ]
        if not ended and (topic is not None or partition_index is not None):
            raise not_found("election", f"{topic or '*'}-{'*' if partition_index is None else partition_index}")
        for election in ended:
            elections.end(election.topic, election.partition_index)
        proxy.plan_changed()
        return Response(status_code=204)

    return router


def _state(election: Election) -> ElectionState:
    fields: dict[str, Any] = election._asdict()
    return ElectionState.model_validate(fields)
