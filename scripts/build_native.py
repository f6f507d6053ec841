"""Compile the modules of `_COMPILED` where that can be done; elsewhere the package is pure Python, and says so."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_COMPILED = (
    "notleader.proxy.pump.probe",
    "notleader.proxy.pump.pump",
    "notleader.proxy.record.block_writer",
    "notleader.proxy.recorder.pages",
)
# A probe's steps take some 11 % less as branches than by a jump table.
# CFLAGS has the last word, as elsewhere.
_FLAGS = ["-O2", "-g0", "-fno-jump-tables", *shlex.split(os.environ.get("CFLAGS", ""))]
_OLDEST_GLIBC = (2, 17)  # of the systems that Python 3.11 and newer is published for (manylinux2014)
_ALLOWED = {"libc", "libm", "libpthread", "libdl", "librt"}


class NativeBuildHook(BuildHookInterface[Any]):
    """Called by hatchling before it makes a wheel or an editable install."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the compiled modules beside their sources; ``NOTLEADER_PURE=1`` leaves it out, a failure does too."""
        if self.target_name != "wheel":
            return
        if os.environ.get("NOTLEADER_PURE"):
            self.app.display_warning("notleader: without its compiled part, as NOTLEADER_PURE asks")
            return
        try:
            libraries = _compiled(Path(self.root))
        except (Exception, SystemExit) as error:
            why = " ".join(str(error).split())[:200]
            self.app.display_warning(f"notleader: without its compiled part; it works the same, slower ({why})")
            return
        build_data["pure_python"] = False
        tag = _manylinux_tag(b"".join((Path(self.root) / library).read_bytes() for library in libraries))
        build_data.update({"infer_tag": True} if tag is None else {"tag": tag})
        build_data["artifacts"] += map(str, libraries)


def _manylinux_tag(libraries: bytes) -> str | None:
    """The tag of a wheel that runs wherever glibc is as new as the libraries ask for (PEP 600); None elsewhere."""
    system, _, machine = sysconfig.get_platform().partition("-")
    needed = {name.decode() for name in re.findall(rb"\0(lib[a-z]+)[.]so[.][0-9]+(?=\0)", libraries)}
    if system != "linux" or platform.libc_ver()[0] != "glibc" or not needed <= _ALLOWED:
        return None
    asked = re.findall(rb"\0GLIBC_([0-9]+)[.]([0-9]+)", libraries)
    major, minor = max([_OLDEST_GLIBC, *((int(major), int(minor)) for major, minor in asked)])
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}-manylinux_{major}_{minor}_{machine.replace('-', '_')}"


def packages(root: Path) -> Path:
    """The folder with the package as its modules name it: one takes declarations from another's .pxd.

    An sdist does not have it. Its link is relative and made anew: in a checkout that was copied or moved it would lead
    to the one that this came from.
    """
    package = root / "build" / "package" / "notleader"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    (package / "proxy").unlink(missing_ok=True)
    (package / "proxy").symlink_to(Path("../../../proxy"))
    return package.parent


def _compiled(root: Path) -> list[Path]:
    """Where the compiled modules are, relative to ``root``."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    before = os.getcwd()
    os.chdir(packages(root))
    try:
        extensions = [
            Extension(name, [name.replace(".", "/") + ".pyx"], extra_compile_args=_FLAGS) for name in _COMPILED
        ]
        modules = cythonize(extensions, build_dir="../cython", quiet=True)
        command = build_ext(Distribution({"name": "notleader", "ext_modules": modules}))
        command.inplace = True
        command.build_temp = "../objects"
        command.parallel = os.cpu_count()
        command.ensure_finalized()
        command.run()
        return [Path(command.get_ext_fullpath(name)).resolve().relative_to(root.resolve()) for name in _COMPILED]
    finally:
        os.chdir(before)
