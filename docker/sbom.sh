#!/bin/sh
# sbom.sh PYTHON OUT: write a CycloneDX bill of materials (JSON) of everything installed for that interpreter.
# The tool gets an environment of its own, so that it doesn't list itself.
set -eu

if [ $# -ne 2 ]; then
  echo "usage: sbom.sh PYTHON OUT.json" >&2
  exit 2
fi
tool=$(mktemp -d)
trap 'rm -rf "$tool"' EXIT
if command -v cyclonedx-py >/dev/null; then
  command=cyclonedx-py
else
  python3 -m venv "$tool"
  "$tool/bin/pip" install -q 'cyclonedx-bom>=7,<8'
  command=$tool/bin/cyclonedx-py
fi
"$command" environment --output-reproducible --of JSON -o "$2" "$1"
