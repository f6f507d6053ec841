"""What the shell offers after a Tab: kinds of faults, the rules of the proxy that runs; and how bash asks for it."""

from __future__ import annotations

import os

from typer import _completion_classes, _completion_shared

from notleader.faults.base import Fault
from notleader.proxy.cli.client import DEFAULT_ADMIN, AdminClient, RefusedError, UnreachableError


def kinds(incomplete: str) -> list[str]:
    """Kinds of faults."""
    return [kind for kind in sorted(Fault.kinds) if kind.startswith(incomplete)]


def rules(incomplete: str) -> list[str]:
    """Rules of the proxy at NOTLEADER_ADMIN (or the default address); none where nobody answers."""
    token = os.environ.get("NOTLEADER_TOKEN") or os.environ.get("NOTLEADER_ADMIN_TOKEN")
    try:
        with AdminClient(os.environ.get("NOTLEADER_ADMIN", DEFAULT_ADMIN), token) as client:
            names = [str(rule["name"]) for rule in client.list_faults()]
    except (UnreachableError, RefusedError, ValueError):
        return []
    return [name for name in names if name.startswith(incomplete)]


# Bash takes words apart at COMP_WORDBREAKS, `:` and `=` among them, and Typer's own script hands on the pieces: a name
# such as `team:lost` is not completed. This one asks with the line as typed, and gives bash the piece that it expects.
_BASH = r"""
%(complete_func)s() {
    local IFS=$'\n' line=${COMP_LINE:0:COMP_POINT} current=${COMP_WORDS[COMP_CWORD]} breaks=${COMP_WORDBREAKS//[^:=]/}
    local word=${line##*[[:space:]]} before= answer
    case $word in --*=*) word=${word#*=} ;; esac
    if [[ -n $breaks && $current != [\"\']* && $word == *[$breaks]* ]]; then
        before=${word%%"${word##*[$breaks]}"}
    fi
    COMPREPLY=()
    for answer in $(env _TYPER_COMPLETE_ARGS="$line" _TYPER_COMPLETE_FISH_ACTION=get-args \
                    %(autocomplete_var)s=complete_fish "$1"); do
        answer=${answer%%%%$'\t'*}
        COMPREPLY+=("${answer#"$before"}")
    done
}

complete -o default -F %(complete_func)s %(prog_name)s
"""


def teach_bash() -> None:
    """Have Typer install and show this script for bash."""
    _completion_shared._completion_scripts["bash"] = _BASH
    _completion_classes.BashComplete.source_template = _BASH
