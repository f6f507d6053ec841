"""A Dockerfile as stages of instructions, as far as ours go: no heredocs, no ONBUILD."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Stage:
    """One FROM and what follows; `settings` has the last USER, WORKDIR, ENTRYPOINT, … as their plain text."""

    base: str
    name: str | None
    steps: list[tuple[str, str]] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)

    def words(self, instruction: str) -> list[str]:
        """The exec form of ENTRYPOINT, CMD or HEALTHCHECK. Raises ValueError for the shell form."""
        text = self.settings[instruction]
        if instruction == "HEALTHCHECK":
            text = text.partition("CMD ")[2]
        words: list[str] = json.loads(text)
        return words


def parse(file: Path) -> list[Stage]:
    """The stages of a Dockerfile in their order."""
    lines = [line for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]
    stages: list[Stage] = []
    arguments: dict[str, str] = {}  # those before the first stage, which FROM may use
    for line in re.sub(r"\\\n", "", "\n".join(lines)).splitlines():
        instruction, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        if not instruction:
            continue
        if instruction == "ARG" and not stages:
            key, _, value = rest.partition("=")
            arguments[key] = value
            continue
        if instruction == "FROM":
            base, _, name = rest.partition(" AS ")
            base = re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], base)
            stages.append(Stage(base, name or None))
            continue
        stage = stages[-1]
        if instruction == "ENV":
            stage.env.update((name, value) for name, _, value in (word.partition("=") for word in shlex.split(rest)))
        elif instruction in {"RUN", "COPY", "WORKDIR"}:
            stage.steps.append((instruction, rest))
        if instruction not in {"RUN", "COPY", "ENV"}:
            stage.settings[instruction] = rest
    return stages
