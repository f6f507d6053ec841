"""`notleader analyze` becomes the analysis, and imports no more than that takes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from notleader.proxy.config.extras import missing
from notleader.proxy.config.refusal import say_refused
from notleader.proxy.record import helpers


def become(given: Sequence[str]) -> int:
    """Run the analysis with these arguments in place of this process; an exit code where it can't be.

    The log is read where `--kafka` asks for it. Spark gets the signals, the terminal and the exit code.
    """
    is_help = bool({"-h", "--help"} & set(given))
    if not is_help and (line := missing("notleader analyze", "analysis")) is not None:
        return _refused(line, given)
    environment = {**helpers.environment(), "NOTLEADER_PROG": "notleader"}
    arguments = list(given)
    if not is_help:
        from notleader.proxy.lab.errors import LabError
        from notleader.proxy.lab.java import find_java

        try:
            environment["JAVA_HOME"] = str(find_java().home)
        except LabError as error:
            return _refused(str(error), given)
        if any(argument.partition("=")[0] == "--kafka" for argument in arguments):
            from notleader.proxy.brokerlog.before_analysis import with_log
            from notleader.proxy.brokerlog.reading import LogError
            from notleader.proxy.config.settings import ConfigError

            try:
                arguments, told = with_log(arguments)
            except (LogError, ConfigError, OSError) as error:
                return _refused(f"notleader analyze: {error}", given)
            for line in told:
                print(line, file=sys.stderr)  # noqa: T201
    sys.stdout.flush()
    return os.execve(sys.executable, helpers.command("notleader.spark_analysis", "analyze", *arguments), environment)


def _refused(line: str, given: Sequence[str]) -> int:
    say_refused(line, as_json="--json" in given)
    return 2
