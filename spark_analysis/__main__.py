"""`python -m notleader.spark_analysis`: the analysis as a command of its own."""

from __future__ import annotations

import sys

from notleader.spark_analysis.cli import main

if __name__ == "__main__":
    sys.exit(main())
