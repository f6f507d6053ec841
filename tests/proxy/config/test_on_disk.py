"""A file that is another one now is noticed, whatever its time says."""

from __future__ import annotations

import os
from pathlib import Path

from notleader.proxy.config.on_disk import stamp


def test_another_file_of_the_same_time_and_size_in_its_place_is_noticed(tmp_path: Path) -> None:
    file, other = tmp_path / "rules.yaml", tmp_path / "other.yaml"
    for path, text in ((file, "old"), (other, "new")):
        path.write_text(text)
        os.utime(path, (1_700_000_000, 1_700_000_000))
    before = stamp(file)
    assert stamp(file) == before
    other.rename(file)
    assert stamp(file) != before
    file.unlink()
    assert stamp(file) == stamp(None) == ()
