"""How much of an exchange has to be seen, as bits: what the pump is told for each API and version."""

from typing import Final

# These three are what ``notleader.faults.plan.Plan.interest`` answers.
ASK_PLAN: Final = 1
REQUEST_BODY: Final = 2
RESPONSE_BODY: Final = 4
HOLD_REQUEST: Final = 8  # the session itself reads the request (who the client is, SASL)
HOLD_RESPONSE: Final = 16  # the answer is read or rewritten before it leaves
KEEP_REQUEST: Final = 32  # the capture wants the request's frame
KEEP_RESPONSE: Final = 64  # the capture wants the answer's frame
PRODUCE: Final = 128  # acks must be known before anything else
ENDPOINTS: Final = 256  # the answer is read only if it carries node_endpoints

ASSEMBLE_REQUEST: Final = ASK_PLAN | REQUEST_BODY | HOLD_REQUEST
ASSEMBLE_RESPONSE: Final = RESPONSE_BODY | HOLD_RESPONSE

SMALL: Final = 4096
"""Bytes. Below that, a copy costs less than a view."""
HEADER_BYTES: Final = 64 << 10
"""As much of a request is kept for its header: a client id is at most 32 KiB, the rest are tags that nobody sends."""

MOST_OPEN: Final = 8192
"""Requests of one connection that wait for their answers, give or take a read; beyond, the client isn't read until half
of them are answered. Far more than clients have under way; a broker takes one."""
MOST_STOPS: Final = 64
"""Frames of one read that somebody has to see in one go: then others have their turn."""

INTERFACE: Final = 13
"""What the compiled part and the Python around it expect of each other; another number whenever that changes."""


def api_number(api_key: int, api_version: int) -> int:
    """An API and a version of it, an int16 of any sign, in one number."""
    return api_key << 16 | api_version & 0xFFFF
