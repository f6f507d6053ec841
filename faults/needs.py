"""What the plan has to be shown of an exchange, as bits of one number."""

from typing import Final

REQUEST: Final = 1
"""`Plan.on_request` has to be asked; the header suffices."""
REQUEST_BODY: Final = 2
"""The whole request is needed to decide."""
RESPONSE_BODY: Final = 4
"""The whole answer is needed, and `Plan.on_response` has to be asked."""
