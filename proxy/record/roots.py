"""Where a recording asked for over HTTP may lie: below the roots that the command line or the config file names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit


def below(directory: str, roots: Iterable[str]) -> str | None:
    """The folder or URL to record to, or None where it lies below none of the roots.

    Of a folder the real path, with symbolic links and ``..`` resolved. Raises ValueError for what is no path.
    """
    wanted = _local(directory)
    for root in roots:
        allowed = _local(root)
        if wanted is not None and allowed is not None and wanted.is_relative_to(allowed):
            return str(wanted)
        if wanted is None and allowed is None and _is_below(urlsplit(directory), urlsplit(root)):
            return directory
    return None


def without_secrets(url: str) -> str:
    """A URL without user, password and query: it goes to logs and to the HTTP API."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _local(where: str) -> Path | None:
    """The real path of a folder, None for a URL of something else."""
    if "://" not in where:
        return Path(where).resolve()
    parts = urlsplit(where)
    return Path(unquote(parts.path)).resolve() if parts.scheme == "file" else None


def _is_below(wanted: SplitResult, root: SplitResult) -> bool:
    """Whether a URL names the same store, with the same options, and a path at or below the root's."""
    path = unquote(wanted.path)
    return (
        (wanted.scheme, wanted.netloc, wanted.query, wanted.fragment)
        == (root.scheme, root.netloc, root.query, root.fragment)
        and not {".", ".."} & set(path.split("/"))
        and f"{path.rstrip('/')}/".startswith(f"{unquote(root.path).rstrip('/')}/")
    )
