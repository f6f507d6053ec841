"""For all tests: how long an example takes depends on what else the machine does, so none has a deadline."""

from hypothesis import settings

settings.register_profile("unhurried", parent=settings.default, deadline=None)
settings.load_profile("unhurried")
