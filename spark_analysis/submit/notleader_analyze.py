"""What `spark-submit` is given: `spark-submit … "$(notleader spark entry)" analyze …`.

Spark has this folder as the first that modules are looked for in, so nothing else is in it. The driver's Python may be
another than that which notleader was installed for: then notleader is where this file lies, behind all of its own.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).absolute().parents[3:4]
    if find_spec("notleader") is None and here and (here[0] / "notleader" / "spark_analysis").is_dir():
        sys.path.append(str(here[0]))
    from notleader.spark_analysis.cli import main

    sys.exit(main())
