"""For all tests: how long an example takes depends on what else the machine does, so none has a deadline."""

import os

from hypothesis import settings

# A Spark that stays would judge one test after the other, and outlive them: who tests it says so.
os.environ.setdefault("NOTLEADER_SPARK_WARM", "off")

settings.register_profile("unhurried", parent=settings.default, deadline=None)
settings.load_profile("unhurried")
