"""What every model of a fault document has in common, and its numbers with their bounds."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

YEAR_MS = 365 * 24 * 3600 * 1000
LARGEST_INT32 = 2**31 - 1
LARGEST_INT64 = 2**63 - 1

Milliseconds = Annotated[float, Field(ge=0, le=YEAR_MS)]
SomeMilliseconds = Annotated[float, Field(gt=0, le=YEAR_MS)]
NodeId = Annotated[int, Field(ge=0, le=LARGEST_INT32)]
Bytes = Annotated[int, Field(ge=0, le=LARGEST_INT64)]


class Document(BaseModel):
    """Plain data that is exactly what it says: no unknown keys, no text for a number, no truth value for one."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
