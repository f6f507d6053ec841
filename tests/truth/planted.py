"""Scenarios in which rules did something: which effect, on which client, and which of the rules it was."""

from __future__ import annotations

from tests.truth.planted_groups import GROUPS
from tests.truth.planted_incidents import INCIDENTS
from tests.truth.planted_leaders import LEADERS
from tests.truth.planted_levels import LEVELS
from tests.truth.planted_mixed import MIXED
from tests.truth.planted_sends import SENDS
from tests.truth.planted_several import SEVERAL
from tests.truth.planted_standing import STANDING
from tests.truth.planted_strangers import STRANGERS

PLANTED = (*SENDS, *STANDING, *GROUPS, *LEADERS, *INCIDENTS, *STRANGERS, *SEVERAL, *LEVELS, *MIXED)
