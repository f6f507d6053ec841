"""A Spark that an analysis started stays as long as its caller says, and as the user's environment allows."""

import pytest

from notleader.proxy.lab.analysis import _warmth


@pytest.mark.parametrize(
    ("stays_s", "given", "told"),
    [
        (0, {}, {"NOTLEADER_SPARK_WARM": "use"}),
        (120, {}, {"NOTLEADER_SPARK_WARM": "keep", "NOTLEADER_SPARK_IDLE_S": "120"}),
        (120, {"NOTLEADER_SPARK_WARM": "off"}, {"NOTLEADER_SPARK_IDLE_S": "120"}),
        (120, {"NOTLEADER_SPARK_IDLE_S": "5"}, {"NOTLEADER_SPARK_WARM": "keep"}),
    ],
)
def test_how_long_a_spark_stays(stays_s: int, given: dict[str, str], told: dict[str, str]) -> None:
    assert _warmth(stays_s, given) == told
