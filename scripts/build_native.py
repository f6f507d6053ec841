"""Compile `notleader.proxy.plain.native` where that can be done; elsewhere the package is pure Python, and says so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SOURCE = "proxy/plain/native.pyx"


class NativeBuildHook(BuildHookInterface[Any]):
    """Called by hatchling before it makes a wheel or an editable install."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the compiled module beside its source; ``NOTLEADER_PURE=1`` leaves it out, a failure does too."""
        if self.target_name != "wheel":
            return
        if os.environ.get("NOTLEADER_PURE"):
            self.app.display_warning("notleader: without its compiled part, as NOTLEADER_PURE asks")
            return
        try:
            library = _compiled(Path(self.root))
        except (Exception, SystemExit) as error:
            why = " ".join(str(error).split())[:200]
            self.app.display_warning(f"notleader: without its compiled part; it works the same, slower ({why})")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"].append(str(library))


def _compiled(root: Path) -> Path:
    """Where the compiled module is, relative to ``root``."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    before = os.getcwd()
    os.chdir(root)
    try:
        extension = Extension("notleader.proxy.plain.native", [_SOURCE], extra_compile_args=["-O2", "-g0"])
        modules = cythonize([extension], build_dir="build", quiet=True)
        command = build_ext(
            Distribution({"name": "notleader", "ext_modules": modules, "package_dir": {"notleader": ""}})
        )
        command.inplace = True
        command.build_temp = "build"
        command.ensure_finalized()
        command.run()
        return Path(command.get_ext_fullpath("notleader.proxy.plain.native")).resolve().relative_to(root)
    finally:
        os.chdir(before)
