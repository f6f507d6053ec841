"""What was found, as files: a rule file for each failure, a test to paste, a report as Markdown, JSON and JUnit."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import yaml

from notleader.proxy.lab.explore.findings import Failure, described
from notleader.proxy.lab.explore.judging import KINDS
from notleader.proxy.lab.explore.search import Explored, Limits


def write(explored: Explored, command: list[str], limits: Limits, out: Path) -> None:
    """All files of a report, into `out`; those of an earlier search go."""
    for old in (*out.glob("failure-*.yaml"), *out.glob("test_failure_*.py")):
        old.unlink()
    for number, failure in enumerate(explored.failures, 1):
        (out / rule_file_name(number)).write_text(rule_file(failure, command))
        (out / f"test_failure_{number}.py").write_text(pytest_test(number, failure, command))
    (out / "report.json").write_text(json.dumps(document(explored, command, limits), indent=1))
    (out / "report.md").write_text(markdown(explored, command, limits))
    (out / "junit.xml").write_text(junit(explored))


def rule_file_name(number: int) -> str:
    """The file that reproduces the failure of that number."""
    return f"failure-{number}.yaml"


def rule_file(failure: Failure, command: list[str]) -> str:
    """A config file of `notleader run`, which `notleader explore --replay` takes as well."""
    said = [f"{failure.kind}: {failure.verdicts[0].sentence}", f"command: {shlex.join(command)}"]
    head = "".join(f"# {line}\n" for text in said for line in _printable(text).splitlines())
    return head + yaml.safe_dump({"faults": failure.rules}, sort_keys=False, allow_unicode=True)


def pytest_test(number: int, failure: Failure, command: list[str]) -> str:
    """A test that fails as long as the command breaks; its rule file lies beside it."""
    argv = ",\n        ".join(repr(word) for word in ["--", *command])
    name = re.sub(r"\W+", "_", f"{failure.kind} by {described(failure.rules[0])}".lower()).strip("_")[:70]
    return f'''"""{_printable(failure.title).replace(chr(92), "/").replace('"', "'")}"""

import subprocess
import sys
from pathlib import Path


def test_{name}():
    rules = Path(__file__).with_name("{rule_file_name(number)}")
    argv = [
        *("notleader", "explore", "--replay", str(rules)),
        {argv},
    ]
    ran = subprocess.run([sys.executable, "-m", *argv], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
'''


def document(explored: Explored, command: list[str], limits: Limits) -> dict[str, Any]:
    """The report as one JSON document."""
    return {
        "command": command,
        "seed": limits.seed,
        "allowed": sorted(limits.allow),
        "negative": bool(explored.failures),
        "interrupted": explored.interrupted,
        "seconds": round(explored.seconds, 1),
        "tries": explored.tries,
        "never_hit": explored.missed,
        "candidates_left": explored.left,
        "points": len(explored.points),
        "points_struck": len(explored.struck),
        "faults": explored.families,
        "faults_struck": len(explored.families_struck),
        "learned": {
            "seconds": round(explored.learned.seconds, 2),
            "messages_in_log": len(explored.learned.always),
            "ids_are_unique": explored.learned.unique,
            "outcome_lines_name_ids": explored.learned.tells_ids,
        },
        "slow": explored.slow,
        "failures": [
            {
                "file": rule_file_name(number),
                "kind": failure.kind,
                "title": failure.title,
                **asdict(failure),
            }
            for number, failure in enumerate(explored.failures, 1)
        ],
    }


def unjudged(explored: Explored) -> list[str]:
    """What can't be judged for this command, and what it would take."""
    learned = explored.learned
    told = []
    if not learned.unique:
        told.append(
            "doubled messages: the log of a run without faults has no ids that are unique (the header notleader-id, or "
            "a short value), or the command does not take its topic from {topic}"
        )
    if not learned.tells_ids:
        if learned.always:
            told.append(
                "messages lost though acknowledged: no outcome lines name what the log holds; what the log lacks that "
                "it has without faults is told as `missing`"
            )
        else:
            told.append("lost messages: no outcome lines name what the log holds, and it differs from run to run")
    return told


def markdown(explored: Explored, command: list[str], limits: Limits) -> str:
    """The report for people."""
    found = len(explored.failures)
    lines = [
        f"# {found} failure{'' if found == 1 else 's'} found",
        "",
        f"    {_printable(shlex.join(command))}",
        "",
        f"{explored.progress()}, in {explored.seconds:.0f} s; seed {limits.seed}; {explored.missed} tries whose rule "
        f"was never hit; {explored.left} candidates left." + (" Interrupted." if explored.interrupted else ""),
        "",
    ]
    for number, failure in enumerate(explored.failures, 1):
        lines += [
            f"## {number}. {_printable(failure.title)}",
            "",
            f"{KINDS[failure.kind].capitalize()}. With this rule it broke {failure.broke} of {failure.repeated} times; "
            + ("without it the command ends well." if failure.survives_without else "**it broke without it too.**"),
            "",
            "```yaml",
            yaml.safe_dump({"faults": failure.rules}, sort_keys=False).rstrip(),
            "```",
            "",
            f"Found in try {failure.tries_to_find} at {failure.point}, shrunk in {failure.tries_to_shrink} tries, seen "
            f"{failure.seen_again} times more in other places. `notleader explore --replay {rule_file_name(number)} -- "
            "COMMAND …` tries it again.",
            "",
            *(f"- {_printable(f'{each.kind}: {each.sentence}')}" for each in failure.verdicts),
            "",
            "```",
            *failure.timeline,
            "```",
            "",
        ]
    if explored.slow:
        lines += ["## Late, and well in the end", "", *(f"- {each}" for each in explored.slow), ""]
    if told := unjudged(explored):
        lines += ["## Not judged", "", *(f"- {each}" for each in told), ""]
    return "\n".join(lines)


def junit(explored: Explored) -> str:
    """One test case for each failure, or one that passed."""
    suite = ElementTree.Element(
        "testsuite",
        name="notleader explore",
        tests=str(max(len(explored.failures), 1)),
        failures=str(len(explored.failures)),
        time=f"{explored.seconds:.1f}",
    )
    if not explored.failures:
        ElementTree.SubElement(suite, "testcase", name="nothing found", classname="notleader.explore")
    for failure in explored.failures:
        case = ElementTree.SubElement(
            suite, "testcase", name=" and ".join(map(described, failure.rules)), classname="notleader.explore"
        )
        what = ElementTree.SubElement(case, "failure", type=failure.kind, message=_printable(failure.title))
        what.text = "\n".join(failure.timeline)
    return ElementTree.tostring(suite, encoding="unicode")


def _printable(text: str) -> str:
    """Text of the command's own, without what a terminal, Markdown or XML would take for more than text."""
    return "".join(each if each.isprintable() else " " for each in text)
