"""`python -m notleader.spark_analysis`: the analysis as a command of its own."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def start() -> int:
    """Run the command, or say what it needs."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # as `notleader` itself does
    if find_spec("pyspark") is None and not {"-h", "--help"} & set(sys.argv[1:]):
        print("notleader analyze needs Spark: pip install 'notleader[analysis]'", file=sys.stderr)  # noqa: T201
        return 2
    from notleader.spark_analysis.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(start())
