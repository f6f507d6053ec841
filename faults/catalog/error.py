"""`error`: the broker refuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from notleader.faults.actions import Action, Fail, RewriteResponse
from notleader.faults.answers import refuses_by_entry
from notleader.faults.base import Context, Fault
from notleader.faults.partial import names_nothing, refuse_answer
from notleader.faults.selectors import number_schema, pattern_schema, spelled
from notleader.proxy.wire.names import OLD_ERROR_NAMES, ErrorCode, parse_error_code
from notleader.proxy.wire.view import Request

_SPELLED = spelled(ErrorCode, OLD_ERROR_NAMES)


def _parse(value: Any) -> ErrorCode:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError("the name or number of one of Kafka's error codes expected")
    code = parse_error_code(value)
    if isinstance(value, str) and not _SPELLED.fullmatch(value):
        raise ValueError(f"{value!r} is not how an error code is written: {code.name}")
    return code


ErrorCodeField = Annotated[
    ErrorCode,
    BeforeValidator(_parse),
    PlainSerializer(lambda code: code.name),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": [code.name for code in ErrorCode]},
                pattern_schema(_SPELLED),
                number_schema(ErrorCode),
            ]
        }
    ),
]


class ErrorFault(Fault):
    """The answer carries an error code, in the place and with the other fields that a broker would give it.

    `before_broker`: the request, or its matching partitions, never reach the broker; the rest does, and the answers
    are merged. Metadata, Fetch and ShareFetch always reach it, for only their answers are rewritten; a ShareFetch that
    is refused as a whole is handed no records. `after_broker`: the broker carries the request out, and then the client
    is told that it was refused. Of a Produce with acks=0, which has no
    answer, `before_broker` closes the connection, as brokers do; `after_broker` can't be applied to it.
    """

    kind: Literal["error"] = "error"
    ends = "partitions"
    reads_request = True
    phase: Literal["before_broker", "after_broker"] = Field(
        "before_broker", description="Whether the broker carries the request out before it is refused."
    )
    error_code: ErrorCodeField = Field(description="Kafka's error code, by name (old ones too) or number.")

    def refuses_entries(self, request: Request) -> bool:
        return refuses_by_entry(request.header.api_key, request.header.api_version, self.error_code)

    def applies(self, context: Context) -> bool:
        return not (self.refuses_entries(context.request) and names_nothing(context.request, context.asked))

    def on_request(self, context: Context) -> Iterable[Fail]:
        yield Fail(self.error_code, context.keys)

    def on_response(self, context: Context) -> Iterable[Action]:
        body = refuse_answer(context.request, context.answer, self.error_code, context.hit_partitions, self.match)
        yield RewriteResponse(body)
