"""The commands of README.md and of the live analysis, as they stand; only ports are others.

What a reader has in a second terminal runs in the background here, and `your-app` is a small one that records.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.ports import free_ports
from tests.docker.image import PROJECT

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
YOUR_APP = "your-app --bootstrap-server localhost:19092"
START = """
end() { if [ -n "${proxy:-}" ]; then kill $proxy; wait $proxy; proxy=; fi; }
ready() { until curl -sfo /dev/null localhost:8474/readyz; do kill -0 $proxy; sleep 0.2; done; }
your-app() { "$PYTHON" "$APP" "$@"; }
trap 'end' EXIT
"""


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (PROJECT / page).read_text(), flags=re.MULTILINE | re.DOTALL)


def script(kafka: str) -> str:
    """README's commands and then those of the live analysis, in bash."""
    commands = [line[2:] for block in blocks("README.md", "console") for line in block.splitlines() if line[:2] == "$ "]
    lines = []
    for command in commands:
        if command.startswith("make "):
            continue  # what CI itself is
        if command.startswith("notleader run"):
            lines += ["end", f"{command} & proxy=$!", "ready"]
            if "--capture" in command:
                lines += ["rm -f *.jsonl", YOUR_APP, "end"]
        elif command.startswith("notleader fault wait"):
            lines += [YOUR_APP, command]
        else:
            lines += [command]
    # In the folders that the page of the live analysis names: until there is a verdict, and then Ctrl-C.
    (live,) = blocks("docs/live-analysis.md", "sh")
    lines += ["mkdir out", "mv traffic out/capture", "mv *.jsonl out"]
    lines += [f"setsid {live.strip()} >live.txt & live=$!"]
    lines += [
        "until grep -q '^verdict' live.txt; do kill -0 $live; sleep 0.2; done",
        "kill -INT -- -$live",
        "wait $live",
    ]
    text = "\n".join(lines)
    admin, listen, broker = free_ports(3)
    text = re.sub(r"--kafka \S+", f"--kafka {kafka} --broker-ports {broker}", START + text)
    for port, ours in ((19092, listen), (8474, admin)):
        text = text.replace(str(port), str(ours))
    return f"set -euo pipefail\nexport NOTLEADER_ADMIN=127.0.0.1:{admin}\n{text}\n"


def test_the_commands_do_what_they_say(kafka: KafkaCluster, tmp_path: Path) -> None:
    for block in blocks("README.md", "yaml"):
        if name := re.match(r"# (\S+\.yaml)\n", block):
            (tmp_path / name[1]).write_text(block)
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "APP": str(PROJECT / "tests/docs/your_app.py"),
        "PYTHONPATH": str(PROJECT / "src"),
    }
    # Files and not pipes: what a failing script leaves running would keep a pipe open.
    with open(tmp_path / "told", "w+") as told:
        command = ["bash", "-c", script(kafka.bootstrap)]
        ran = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=told, stderr=told, start_new_session=True)
        try:
            ran.wait(timeout=900)
        finally:
            if ran.returncode != 0:
                os.killpg(ran.pid, signal.SIGKILL)
    said = (tmp_path / "told").read_text()
    assert ran.returncode == 0, said
    assert "never hit" not in said
    assert (tmp_path / "verdict/report.html").is_file()
    assert (tmp_path / "out/analysis/report.html").is_file()
