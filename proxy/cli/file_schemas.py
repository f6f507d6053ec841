"""JSON Schemas of the files that people write: config (rules, settings, timeline), timeline, incident.

``python -m notleader.proxy.cli.file_schemas`` writes them to ``docs/schemas/``, the path that editors are pointed to by
a first line ``# yaml-language-server: $schema=…``; a test compares. ``notleader schema NAME`` prints one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from notleader.faults.schema import fault_json_schema
from notleader.faults.timeline import step_json_schema
from notleader.proxy.config.settings import Settings

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_ADDRESS: Final = {
    "type": "string",
    "pattern": r"^(none|off|(\[[0-9a-fA-F:.]+\]|[^:,\s]*):[0-9]{1,5}(,(\[[0-9a-fA-F:.]+\]|[^:,\s]*):[0-9]{1,5})*)$",
    "description": "HOST:PORT, [IPv6]:PORT or :PORT (loopback)",
}
_FAULT: Final = {"$ref": "#/$defs/fault"}


def config_schema() -> dict[str, Any]:
    """A file for ``notleader run --config``: any setting, ``faults`` and ``steps``."""
    settings = Settings.model_json_schema()
    definitions = settings["$defs"]
    definitions["Endpoint"] = _ADDRESS
    properties: dict[str, Any] = settings["properties"]
    for name, described in properties.items():
        described.pop("title", None)
        described.pop("default", None)
        # What is a list may be a text with commas, as on the command line.
        forms = described.get("anyOf", [described])
        for form in [form for form in forms if form.get("type") == "array"]:
            items = form["items"]
            text = items if "$ref" in items else {"type": "string"}
            others = [other for other in forms if other is not form]
            properties[name] = {
                "description": described["description"],
                "anyOf": [text, {"type": "array", "items": items}, *others],
            }
    properties["faults"] = _list_of(_FAULT, "Rules, in their order.")
    properties["steps"] = _list_of(step_json_schema(_FAULT), "Timeline: rules added and removed by time or hits.")
    return _document("notleader: config", {"additionalProperties": False, "properties": properties}, definitions)


def timeline_schema() -> dict[str, Any]:
    """A body of ``POST /v1/timelines`` in a file: ``steps`` alone."""
    steps = _list_of(step_json_schema(_FAULT), "What happens when.") | {"minItems": 1}
    return _document(
        "notleader: timeline", {"required": ["steps"], "properties": {"steps": steps, "name": {"type": "string"}}}, {}
    )


def incident_schema() -> dict[str, Any]:
    """An incident: the story, the cluster, the faults in time, the clients, and what has to be seen."""
    from notleader.proxy.lab.incident import Incident

    incident = Incident.model_json_schema()
    settings = config_schema()
    definitions = {**incident["$defs"], **settings["$defs"]}
    steps = _list_of(step_json_schema(_FAULT), "Rules added and removed in time.")
    kept = ("additionalProperties", "properties")
    definitions["settings"] = {"type": "object", **{key: settings[key] for key in kept}}
    for part in (incident["properties"], definitions["Run"]["properties"]):
        part["faults"] = _list_of(_FAULT, "Rules from the start on.")
        part["steps"] = steps
    incident["properties"]["proxy"] = {"$ref": "#/$defs/settings"}
    wanted = {key: incident[key] for key in ("additionalProperties", "properties", "required")}
    return _document("notleader: incident", wanted, definitions)


SCHEMAS: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "config": config_schema,
    "timeline": timeline_schema,
    "incident": incident_schema,
}


def text_of(name: str) -> str:
    """A schema as it stands in its file. KeyError when there is none of this name."""
    return json.dumps(SCHEMAS[name](), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _list_of(items: dict[str, Any], description: str) -> dict[str, Any]:
    return {"type": "array", "description": description, "items": items}


def _document(title: str, body: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    fault = fault_json_schema()
    shared = {**definitions, **fault["$defs"], "fault": {key: fault[key] for key in fault if key != "$defs"}}
    return {"$schema": _DIALECT, "title": title, "type": "object", **body, "$defs": shared}


def write(folder: Path) -> None:
    """Write every schema below ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SCHEMAS:
        (folder / f"{name}.schema.json").write_text(text_of(name), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/schemas"))
