"""What was found, as files: a rule file and a test to paste for each failure, a report in four formats."""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import yaml

from notleader.proxy.lab.explore.asked import Asked, rule_file_name
from notleader.proxy.lab.explore.candidates import brokers_needed
from notleader.proxy.lab.explore.findings import Failure, described
from notleader.proxy.lab.explore.page import html
from notleader.proxy.lab.explore.search import Explored, Limits
from notleader.proxy.lab.explore.words import (
    again,
    basis,
    found,
    given_up,
    origin,
    printable,
    rate,
    unjudged,
    unstable,
    without,
)
from notleader.proxy.lab.process import filled


def write(explored: Explored, asked: Asked, limits: Limits, out: Path) -> None:
    """All files of a report, into `out`; those of an earlier search go."""
    for old in (*out.glob("failure-*.yaml"), *out.glob("test_failure_*.py"), *out.glob("incident-*.yaml")):
        old.unlink()
    for number, failure in enumerate(explored.failures, 1):
        (out / rule_file_name(number)).write_text(rule_file(failure, asked), "utf-8")
        (out / f"test_failure_{number}.py").write_text(pytest_test(number, failure, asked, out), "utf-8")
        if (held := _held(number, failure, explored)) is not None:
            limit_s = limits.limit_of(explored.learned)
            (out / _incident_file_name(number)).write_text(
                incident_file(number, failure, held, asked, limit_s, out), "utf-8"
            )
    (out / "report.json").write_text(json.dumps(document(explored, asked, limits), indent=1), "utf-8")
    (out / "report.md").write_text(markdown(explored, asked, limits), "utf-8")
    (out / "report.html").write_text(html(explored, asked, limits), "utf-8")
    (out / "junit.xml").write_text(junit(explored), "utf-8")


def rule_file(failure: Failure, asked: Asked) -> str:
    """A config file of `notleader run`, which `notleader explore --replay` takes as well."""
    said = [f"{failure.kind}: {failure.verdicts[0].sentence}", f"command: {shlex.join(asked.command)}"]
    said += [f"{_OPTIONS}{shlex.join(asked.options)}"] if asked.options else []
    said += [] if failure.messages is None else [f"{_MESSAGES}{failure.messages}"]
    head = "".join(f"# {line}\n" for text in said for line in _line(text).splitlines())
    return head + yaml.safe_dump({"faults": failure.rules}, sort_keys=False, allow_unicode=True)


_MESSAGES = "messages: "
_OPTIONS = "options: "


def messages_of(text: str) -> int | None:
    """How many messages a rule file was shrunk to, by its head; None where it doesn't say."""
    found = re.search(rf"^# {_MESSAGES}([1-9]\d*)$", text, re.MULTILINE)
    return int(found[1]) if found else None


def options_of(text: str) -> list[str]:
    """The options with which the failure of a rule file was found, by its head, as words."""
    found = re.search(rf"^# {_OPTIONS}(.+)$", text, re.MULTILINE)
    return shlex.split(found[1]) if found else []


def _incident_file_name(number: int) -> str:
    return f"incident-{number}.yaml"


Held = tuple[dict[str, Any], dict[str, Any]]


def incident_file(number: int, failure: Failure, held: Held, asked: Asked, limit_s: float, out: Path) -> str:
    """What `notleader incident run` takes: the command with the rules and without, and what has to become of it."""
    affected, control = held
    words = {} if failure.messages is None else {"messages": str(failure.messages)}
    shrunk = [filled(word, words) for word in asked.command]
    nodes = max(asked.brokers, brokers_needed(failure.rules))
    name = (
        re.sub(r"[^a-z0-9]+", "-", f"{failure.kind}-by-{described(failure.rules[0])}".lower())
        .strip("-")[:60]
        .strip("-")
    )
    document = {
        "name": name,
        "title": _line(failure.title)[:120],
        "story": f"notleader explore found it: {_line(failure.verdicts[0].sentence)}. Say here what it means to whom.",
        **({"kafka": {"nodes": nodes}} if nodes > 1 else {}),
        "topics": [{"name": _topic(number), "partitions": asked.partitions}],
        "faults": failure.rules,
        "clients": [
            {"name": "service", "command": shrunk, "folder": _here(out), "role": "the command that was explored"}
        ],
        "runs": [{"name": "affected", **affected}, {"name": "control", "faults": [], **control}],
        "limit_s": round(limit_s, 1),
    }
    head = "# notleader incident run FILE: the verdict's words, its cause, and a run without the rules beside it.\n"
    return head + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)


_FOUND_BY = {
    "lost": "lost",
    "duplicate": "duplicate",
    "skipped": "skipped",
    "read-twice": "read_again",
    "stuck": "stuck",
    "unanswered": "hang",
}
_BY_SENDS = ("lost", "duplicate", "skipped", "stuck")
"""The analysis judges these by what the outcome lines tell of sends."""


def _held(number: int, failure: Failure, explored: Explored) -> Held | None:
    """What an incident's two runs have to show, by verdict; None where only the search itself can tell."""
    kind, learned = failure.kind, explored.learned
    if kind in ("hang", "exit"):
        return {"ends": "never" if kind == "hang" else "badly"}, {"ends": "well"}
    if kind in _BY_SENDS and not learned.tells_ids:
        records = _records(failure, explored) if kind == "duplicate" else 0
        if not records:
            return None
        more, as_many = (
            {"records": {_topic(number): each}} for each in ({"at_least": records + 1}, {"at_most": records})
        )
        return more, as_many | {"ends": "well"}
    if kind not in _FOUND_BY:
        return None
    check = _FOUND_BY[kind]
    return {"must": [check]}, {"never": [check], "ends": "well"}


def _records(failure: Failure, explored: Explored) -> int:
    """How many records its command leaves in the log without faults; 0 where that isn't known."""
    records = len(explored.learned.always)
    if failure.messages == explored.messages:
        return records
    return failure.messages or 0 if records == explored.messages else 0


def _topic(number: int) -> str:
    return f"explored-{number}"


def pytest_test(number: int, failure: Failure, asked: Asked, out: Path) -> str:
    """A test that fails as long as the command breaks: for a file in `out`, beside its rules, run from anywhere."""
    argv = ",\n        ".join(repr(word) for word in [*asked.of_failure(failure), "--", *asked.command])
    name = re.sub(r"\W+", "_", f"{failure.kind} by {failure.by}".lower()).strip("_")[:70].strip("_")
    return f'''"""{_line(failure.title).replace(chr(92), "/").replace('"', "'")}"""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def test_{name}():
    argv = [
        *("notleader", "explore", "--replay", str(FOLDER / "{rule_file_name(number)}")),
        {argv},
    ]
    searched_from = FOLDER / {_here(out)!r}
    ran = subprocess.run([sys.executable, "-P", "-m", *argv], cwd=searched_from, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
'''


def _here(out: Path) -> str:
    """The folder that the search runs in, as a file in `out` names it."""
    return os.path.relpath(Path.cwd(), out.resolve())


def document(explored: Explored, asked: Asked, limits: Limits) -> dict[str, Any]:
    """The report as one JSON document."""
    return {
        "command": asked.command,
        "options": list(asked.options),
        "messages": explored.messages,
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
        "gave_up": explored.gave_up,
        "unstable": [{"kind": each.kind, "title": each.title, **asdict(each)} for each in explored.unstable],
        "map": explored.map.as_dict(),
        "failures": [
            {
                "file": rule_file_name(number),
                "incident": None if _held(number, failure, explored) is None else _incident_file_name(number),
                "kind": failure.kind,
                "title": failure.title,
                "again": [*asked.again(number, failure), *asked.command],
                **asdict(failure),
            }
            for number, failure in enumerate(explored.failures, 1)
        ],
    }


def markdown(explored: Explored, asked: Asked, limits: Limits) -> str:
    """The report for people."""
    lines = [
        f"# {found(explored)}",
        "",
        f"    {_line(shlex.join(asked.command))}",
        "",
        basis(explored, limits),
        "",
    ]
    for number, failure in enumerate(explored.failures, 1):
        lines += [
            f"## {number}. {_line(failure.title)}",
            "",
            f"{rate(failure)} " + (without(failure) if failure.survives_without else f"**{without(failure)}**"),
            "",
            "```yaml",
            yaml.safe_dump({"faults": failure.rules}, sort_keys=False).rstrip(),
            "```",
            "",
            f"{origin(failure)} This tries it again:",
            "",
            f"    {_line(again(number, failure, asked))}",
            "",
            *(f"- {_line(f'{each.kind}: {each.sentence}')}" for each in failure.verdicts),
            "",
            "```",
            *failure.timeline,
            "```",
            "",
        ]
    if explored.unstable:
        lines += ["## Broke once, and not again", "", *(f"- {_line(each)}" for each in unstable(explored)), ""]
    if explored.slow:
        lines += ["## Late, and well in the end", "", *(f"- {each}" for each in explored.slow), ""]
    if explored.gave_up:
        lines += ["## Gave up as it may, and said so", "", *(f"- {each}" for each in given_up(explored)), ""]
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
        case = ElementTree.SubElement(suite, "testcase", name=failure.by, classname="notleader.explore")
        what = ElementTree.SubElement(case, "failure", type=failure.kind, message=_line(failure.title))
        what.text = "\n".join(failure.timeline)
    return ElementTree.tostring(suite, encoding="unicode")


def _line(text: str) -> str:
    return printable(text).replace("\n", " ")
