"""The findings as JUnit XML: one test case per check, failed when it has a negative finding."""

from __future__ import annotations

from xml.etree import ElementTree

from notleader.spark_analysis.findings import Finding
from notleader.spark_analysis.jobs.analyze import Analysis
from notleader.spark_analysis.report.printable import printable


def render(analysis: Analysis) -> str:
    """A `testsuite` whose cases are the checks; undecided ones are skipped, notes go to system-out."""
    by_check: dict[str, list[Finding]] = {}
    for finding in analysis.findings:
        by_check.setdefault(finding.check, []).append(finding)
    failures = sum(any(f.verdict == "invalid" for f in found) for found in by_check.values())
    skipped = sum(all(f.verdict == "unknown" for f in found) for found in by_check.values())
    suite = ElementTree.Element(
        "testsuite",
        name="notleader analyze",
        tests=str(len(by_check)),
        failures=str(failures),
        errors="0",
        skipped=str(skipped),
        time=f"{analysis.seconds:.1f}",
    )
    for check, found in by_check.items():
        case = ElementTree.SubElement(suite, "testcase", classname="notleader", name=check, time="0")
        wrong = [printable(f.sentence) for f in found if f.verdict == "invalid"]
        if wrong:
            ElementTree.SubElement(case, "failure", message=wrong[0]).text = "\n".join(wrong)
        elif all(f.verdict == "unknown" for f in found):
            ElementTree.SubElement(case, "skipped", message=printable(found[0].sentence))
        told = "\n".join(printable(f.sentence) for f in found if f.verdict != "invalid")
        if told:
            ElementTree.SubElement(case, "system-out").text = told
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"
