"""What lies below a root, and what only looks so."""

from __future__ import annotations

from pathlib import Path

import pytest

from notleader.proxy.record.roots import below


def test_a_root_and_what_is_below_it_are_allowed_by_their_real_paths(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "in").mkdir(parents=True)
    assert below(str(root), [str(root)]) == str(root)
    assert below(f"{root}/new/er", ["/nowhere", str(root)]) == f"{root}/new/er"
    assert below(f"file://{root}/new", [str(root)]) == f"{root}/new"
    assert below(f"{root}/in/../other", [str(root)]) == f"{root}/other"
    assert below(str(root / "x"), [f"{tmp_path}/in/../root/"]) == f"{root}/x"


def test_links_lead_nowhere_else(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    (root / "link").symlink_to(other)
    (tmp_path / "way").symlink_to(root)
    for outside in (root / "link", root / "link" / "deeper", root / ".." / "other", tmp_path / "root-2", tmp_path):
        assert below(str(outside), [str(root)]) is None
    assert below(str(tmp_path / "way" / "x"), [str(root)]) == f"{root}/x"
    assert below(str(root / "x"), [str(tmp_path / "way")]) == f"{root}/x"


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("s3://bucket/a", True),
        ("s3://bucket/a/b%20c", True),
        ("s3://bucket/ab", False),
        ("s3://bucket", False),
        ("s3://bucket/a/../b", False),
        ("s3://bucket/a/%2E%2e/b", False),
        ("s3://other/a", False),
        ("gs://bucket/a", False),
        ("s3://me:secret@bucket/a", False),
        ("s3://bucket/a?endpoint_override=evil:9000", False),
        ("simplecache::s3://bucket/a", False),
    ],
)
def test_a_url_is_of_the_same_store_and_below_its_path(url: str, allowed: bool) -> None:
    assert below(url, ["/var/capture", "s3://bucket/a/"]) == (url if allowed else None)
    assert below(url, ["/"]) is None
