"""What every model of a fault document has in common, and its numbers with their bounds."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

YEAR_MS = 365 * 24 * 3600 * 1000
LARGEST_INT32 = 2**31 - 1
LARGEST_INT64 = 2**63 - 1

Milliseconds = Annotated[float, Field(ge=0, le=YEAR_MS)]
SomeMilliseconds = Annotated[float, Field(gt=0, le=YEAR_MS)]
NodeId = Annotated[int, Field(ge=0, le=LARGEST_INT32)]
Bytes = Annotated[int, Field(ge=0, le=LARGEST_INT64)]
SomeBytes = Annotated[int, Field(ge=1, le=LARGEST_INT64)]


_DEEPEST = 10  # no document is; what is deeper is refused for what it is


def whole(value: Any, depth: int = 0) -> Any:
    """Plain data with 4 for 4.0, wherever it stands: JSON and its Schema know no difference."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list) and depth < _DEEPEST:
        return [whole(item, depth + 1) for item in value]
    if isinstance(value, dict) and depth < _DEEPEST:
        return {key: whole(item, depth + 1) for key, item in value.items()}
    return value


class Document(BaseModel):
    """Plain data that is exactly what it says: no unknown keys, no text for a number, no truth value for one."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, data: Any) -> Any:
        return whole(data)
