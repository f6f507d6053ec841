"""`python -m spark_analysis`: the analysis as a command of its own."""

from __future__ import annotations

import sys

from spark_analysis.cli import main

if __name__ == "__main__":
    sys.exit(main())
