"""README's output of `make demo`, from a real run.

`python scripts/readme_demo.py RUN` puts what the demo in the folder RUN printed into README.md. With `--check` it says
instead what README claims (which rule, which effect) that this run does not show, and exits with 1 if there is any.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
_BLOCK = re.compile(r"(?<=^```\n)verdict .*?(?=^```$)", re.MULTILINE | re.DOTALL)
_WIDTH = 120
# A number, a rate, a length of time: these differ from run to run, what happened does not.
_NUMBERS = re.compile(r"\d[\d,.]*( (ms|s|µs|min)\b)?( \d+ s\b)?")

# How often a client asks within a second is the machine's doing as well: shown, and not held against a run.
_BY_SPEED = (
    "Metadata storm",
    "Retry storm",
    "Reconnect storm",
    "asked for metadata",
    "repeated failing",
    "connected up",
    "acknowledged much more slowly",
)

Claims = set[tuple[str, ...]]


def block(words: str) -> str:
    """What the demo printed, as README shows it: wrapped, without what was not judged and this machine's paths."""
    lines = []
    for line in words.strip().splitlines():
        if line.startswith(("?", "!", "✓", "report:")):
            continue
        lines += textwrap.wrap(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False) or [""]
    return "\n".join(lines).strip() + "\n…\nreport: notleader-demo/latest/analysis/report.html\n"


def claims(words: str) -> tuple[Claims, Claims]:
    """(verdict, rules) of each negative line, and (rule, effect) of each effect that a rule's line tells."""
    joined = re.sub(r"\n {2}(?=\S)", " ", words)
    negative: Claims = set()
    effects: Claims = set()
    for line in joined.splitlines():
        if line.startswith("✗ "):
            rules = re.findall(r"\brules? ([\w., -]+?) \(", line)
            negative.add((line[2:].partition(":")[0], *sorted(rules)))
        elif line.startswith("• "):
            head, _, did = line[2:].partition(": ")
            rule = head.partition(" (")[0].partition(",")[0]
            effects |= {(rule, _effect(part)) for part in did.rstrip(".").split(", ")}
    return (
        {claim for claim in negative if claim[0] not in _BY_SPEED},
        {claim for claim in effects if not claim[1].endswith(_BY_SPEED)},
    )


def _effect(part: str) -> str:
    """An effect without its numbers and names: `sends waited up to`, whoever sent."""
    known = re.search(r"(asked for metadata|repeated failing|connected up|refused as|stuck after)", part)
    words = known[0] if known else _NUMBERS.sub("", part).strip()
    return re.sub(r"\b(send|operation|message|record|call|answer)s?\b ?", "", words).strip()


def missing(readme: str, fresh: str) -> list[str]:
    """What README claims and a fresh run doesn't show, or the other way round for what is negative."""
    negative, effects = claims(readme)
    negative_now, effects_now = claims(fresh)
    said = [
        f"README claims {' by '.join(claim)}; the run does not show it" for claim in sorted(negative - negative_now)
    ]
    said += [f"the run shows {' by '.join(claim)}; README does not" for claim in sorted(negative_now - negative)]
    said += [f"README claims that {rule}: {what}; the run does not" for rule, what in sorted(effects - effects_now)]
    return said


def shown() -> str:
    """The block that stands in README now."""
    found = _BLOCK.search(README.read_text("utf-8"))
    if found is None:
        raise SystemExit("README.md has no block that begins with `verdict`")
    return found[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a folder of the demo's, as notleader-demo/latest")
    parser.add_argument("--check", action="store_true", help="compare what README claims, and change nothing")
    given = parser.parse_args()
    words = (given.run / "verdict.txt").read_text("utf-8")
    if given.check:
        differences = missing(shown(), words)
        sys.stdout.write("".join(f"{each}\n" for each in differences))
        return 1 if differences else 0
    README.write_text(_BLOCK.sub(lambda _: block(words), README.read_text("utf-8"), count=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
