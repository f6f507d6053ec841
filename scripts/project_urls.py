"""Where the project lives, for a package's metadata: whoever builds it knows, and says so by NOTLEADER_URL."""

from __future__ import annotations

import os
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ProjectUrls(MetadataHookInterface):
    """Called by hatchling for `dynamic = ["urls"]`."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `urls`: by the environment, else as the sdist has it that this is built from, else none."""
        url = os.environ.get("NOTLEADER_URL", "").rstrip("/")
        if url:
            metadata["urls"] = {
                "Source": url,
                "Changelog": f"{url}/blob/main/CHANGELOG.md",
                "Documentation": f"{url}/blob/main/docs/index.md",
                "Issues": f"{url}/issues",
            }
            return
        described = Path(self.root, "PKG-INFO")
        urls: dict[str, str] = {}
        if described.is_file():
            for entry in HeaderParser().parsestr(described.read_text(encoding="utf-8")).get_all("Project-URL", []):
                label, _, found = entry.partition(", ")
                urls[label] = found
        metadata["urls"] = urls
