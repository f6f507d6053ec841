"""Builds and runs our images without a container engine, from their Dockerfiles as they stand.

Each stage is an overlay on this machine's own root, with the project's folder hidden: RUN and ENTRYPOINT are
executed in a chroot there, the latter as process 1 of a namespace, without capabilities, under the image's user and
on a read-only root. What that can't show: the base image's own packages (`apt-get` steps are left out), and layers.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from tests.docker.dockerfile import Stage, parse

PROJECT = Path(__file__).resolve().parents[2]
# The interpreter that the base image would bring, and what pip needs of this machine to reach a registry.
PYTHON_BIN = Path(sys.base_prefix) / "bin"
PASSED_ON = ("PIP_", "SSL_", "REQUESTS_", "HTTP", "HTTPS", "NO_PROXY", "http", "no_proxy")


def can_build() -> bool:
    """Whether this user may make namespaces and mount overlays; root on most machines."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0


class Image:
    """One built Dockerfile below `folder`, which must not be an overlay itself."""

    def __init__(self, dockerfile: Path, folder: Path) -> None:
        self._folder = folder
        self._roots: dict[str, Path] = {}
        stages = parse(dockerfile)
        for number, stage in enumerate(stages):
            root = folder / (stage.name or f"stage-{number}")
            for part in ("upper", "work", "root"):
                (root / part).mkdir(parents=True)
            # In a real image nobody's home hides the interpreter.
            for hidden in [parent for parent in PYTHON_BIN.parents if parent.exists()]:
                above = root / "upper" / hidden.relative_to("/")
                above.mkdir(parents=True, exist_ok=True)
                above.chmod(0o755)
            self._roots[stage.name or str(number)] = root
            self._build(stage, root)
        self.stage = stages[-1]
        self.root = root

    def path(self, inside: str) -> Path:
        """Where a file that the build made really is."""
        return self.root / "upper" / inside.lstrip("/")

    def start(
        self,
        words: list[str],
        env: dict[str, str] | None = None,
        volumes: dict[str, Path] | None = None,
        output: int | IO[Any] | None = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        """Run a command as the container's process 1. `volumes`: path inside → folder here."""
        user, _, group = self.stage.settings["USER"].partition(":")
        mounts = "".join(
            f"mount --bind {shlex.quote(str(here))} {self._inside(inside)}\n"
            for inside, here in (volumes or {}).items()
        )
        setpriv = ["setpriv", "--reuid", user, "--regid", group, "--clear-groups", "--bounding-set=-all"]
        setpriv += ["--inh-caps=-all", "--no-new-privs"]
        environment = {**self._environment(self.stage), **(env or {})}
        # Once /proc is mounted read-write within, the root itself is made read-only.
        script = f"{mounts}mount -o remount,ro,bind {self._inside('/')}\nexec " + shlex.join(
            ["chroot", str(self.root / "root"), *setpriv, "env", "-i", "-C", self.stage.settings["WORKDIR"]]
            + [f"{name}={value}" for name, value in environment.items()]
            + words
        )
        return subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", self._mounted(self.root, script)],
            stdout=output,
            stderr=output,
            text=True,
        )

    def run(self, words: list[str], env: dict[str, str] | None = None, **more: Any) -> tuple[int, str, str]:
        """Run a command to its end: exit code, stdout, stderr."""
        process = self.start(words, env, **more)
        out, err = process.communicate(timeout=180)
        return process.returncode, out, err

    def _build(self, stage: Stage, root: Path) -> None:
        folder = "/"
        for instruction, rest in stage.steps:
            if instruction == "WORKDIR":
                folder = rest
                (root / "upper" / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
            elif instruction == "COPY":
                self._copy(rest.split(), root / "upper", folder)
            elif not rest.startswith("apt-get"):
                while rest.startswith("--mount="):
                    rest = rest.partition(" ")[2]
                script = f"exec chroot {root / 'root'} env -i -C {folder} " + shlex.join(
                    [f"{name}={value}" for name, value in self._environment(None).items()] + ["sh", "-euc", rest]
                )
                subprocess.run(["unshare", "--mount", "sh", "-euc", self._mounted(root, script)], check=True)

    def _copy(self, words: list[str], root: Path, folder: str) -> None:
        source = PROJECT
        if words[0].startswith("--from="):
            source = self._roots[words.pop(0).removeprefix("--from=")] / "upper"
        *names, target = words
        for name in names:
            here, there = source / name.lstrip("/"), root / os.path.join(folder, target).lstrip("/")
            if here.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.so") if source == PROJECT else None
                shutil.copytree(here, there, symlinks=True, dirs_exist_ok=True, ignore=ignored)
            else:
                if target.endswith("/"):
                    there /= here.name
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(here, there)

    def _environment(self, stage: Stage | None) -> dict[str, str]:
        path = f"{PYTHON_BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        if stage is None:
            passed_on = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
            # To optimise what is compiled takes most of a build.
            return {"PATH": path, "CFLAGS": "-O0", **passed_on}
        env = {name: value.replace("$PATH", path) for name, value in stage.env.items()}
        return {"PATH": path, **env}

    def _mounted(self, root: Path, script: str) -> str:
        inside = root / "root"
        return (
            f"mount -t overlay overlay -o lowerdir=/,upperdir={root / 'upper'},workdir={root / 'work'} {inside}\n"
            f"mount -t proc proc {inside}/proc\n"
            f"mount --rbind /dev {inside}/dev\n"
            f"mount -t tmpfs tmpfs {inside}{PROJECT}\n"
            f"{script}"
        )

    def _inside(self, path: str) -> str:
        return shlex.quote(str(self.root / "root" / path.lstrip("/")))


def process_one(started: subprocess.Popen[str]) -> int:
    """The pid, as seen from here, of the process 1 that `start` made."""
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    return int(children[0])
