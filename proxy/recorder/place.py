"""Where segments go and are read from: a local folder, or any store that pyarrow.fs or fsspec reaches."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from notleader.proxy.record.limits import CaptureError
from notleader.proxy.record.where import Where

_SEGMENT = re.compile(r"[^._][^/]*\.parquet$")
_RUN = re.compile(r"(?:^|/)run=([^/]+)/")
_PUT = re.compile(r"date=\d{4}-\d\d-\d\d/run=[^/]+/[A-Za-z0-9._-]+-\d{6,}\.parquet")
_MARK: Final = b"notleader.schema_version"
# One PUT makes an object appear whole there; elsewhere a file has to be written aside and renamed.
_OBJECT_STORES = ("s3", "gcs", "abfs", "gs", "az", "memory")


def is_put(path: str) -> bool:
    """Whether a recorder puts a segment there, below its place."""
    return _PUT.fullmatch(path) is not None


class Segment(NamedTuple):
    """One finished file: its path below the place, its size, and when it was written (s since the epoch)."""

    path: str
    size_bytes: int
    written_at_s: float

    @property
    def run_id(self) -> str | None:
        found = _RUN.search(self.path)
        return found[1] if found else None

    @property
    def is_placed(self) -> bool:
        """Whether it has the name, and lies where a recorder with this place puts a segment."""
        return is_put(self.path)


@dataclass(frozen=True, slots=True)
class Place:
    """A folder or bucket prefix. ``folder`` is the path when it is local, None when it is not."""

    shown: str
    filesystem: Any
    root: str
    folder: Path | None
    atomic: bool

    def spool(self, wanted: Path | None = None) -> Path:
        """The local folder where segments grow: the place itself, or one that belongs to this place alone."""
        return Where("", self.shown, self.folder).spool(wanted)

    def put(self, file: Path, path: str) -> None:
        """Make the local ``file`` appear whole under ``path``; the file is gone afterwards. Raises OSError."""
        if self.folder is not None:
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            file.rename(target)
            _sync_folder(target.parent)
            return
        target_path = self._at(path)
        parent, name = target_path.rsplit("/", 1)
        written = target_path if self.atomic else f"{parent}/.{name}.tmp"
        with _as_os_error():
            if not self.atomic:
                self.filesystem.create_dir(parent, recursive=True)
            with file.open("rb") as source, self.filesystem.open_output_stream(written) as sink:
                while piece := source.read(4 << 20):
                    sink.write(piece)
            if written != target_path:
                self.filesystem.move(written, target_path)
        file.unlink()

    def check(self, name: str) -> None:
        """Write a small hidden file and delete it again. Raises OSError when that can't be done."""
        path = self._at(f".{name}.probe")
        with _as_os_error():
            if not self.atomic:
                self.filesystem.create_dir(self.root, recursive=True)
            with self.filesystem.open_output_stream(path) as sink:
                sink.write(b"notleader\n")
        with contextlib.suppress(Exception):  # it may write and not delete: that is enough to record
            self.filesystem.delete_file(path)

    def segments(self, below: str = "") -> list[Segment]:
        """Every Parquet file, in the order of their paths: by day, run and number. Raises OSError.

        Whoever wants to read gets what somebody has moved or renamed, too; see `is_ours`.
        """
        with _as_os_error():
            info = self.filesystem.get_file_info(self.root) if not below else None
            if info is not None and info.type == pafs.FileType.File:
                return [Segment("", info.size, _modified(info))]
            selector = pafs.FileSelector(self._at(below) if below else self.root, recursive=True, allow_not_found=True)
            found = self.filesystem.get_file_info(selector)
        base = len(self.root.rstrip("/")) + 1
        return sorted(
            Segment(entry.path[base:], entry.size, _modified(entry))
            for entry in found
            if entry.type == pafs.FileType.File and _SEGMENT.match(entry.base_name)
        )

    def exists(self) -> bool:
        """Whether there is anything at this place. Raises OSError."""
        with _as_os_error():
            return bool(self.filesystem.get_file_info(self.root).type != pafs.FileType.NotFound)

    def open(self, path: str) -> Any:
        """A segment's bytes as an Arrow file. Raises OSError."""
        with _as_os_error():
            return self.filesystem.open_input_file(self._at(path) if path else self.root)

    def is_ours(self, segment: Segment) -> bool:
        """Whether notleader wrote it here: so say its name, its place, and what its footer holds. Raises OSError."""
        if not segment.is_placed:
            return False
        try:
            with self.open(segment.path) as source:
                return _MARK in (pq.read_metadata(source).metadata or {})
        except pa.ArrowException:
            return False  # no Parquet file
        except FileNotFoundError:
            return False  # somebody else has deleted it

    def delete(self, path: str) -> None:
        """Remove a segment; one that is gone already is no error. Raises OSError."""
        with contextlib.suppress(FileNotFoundError), _as_os_error():
            self.filesystem.delete_file(self._at(path))

    def _at(self, path: str) -> str:
        return str(PurePosixPath(self.root) / path)


def open_place(where: str | os.PathLike[str]) -> Place:
    """The place of a folder's path or a URL (``s3://bucket/prefix``, ``file:///…``). Raises CaptureError."""
    text, shown, folder = Where.of(where)
    if folder is not None:
        return Place(shown, pafs.LocalFileSystem(), folder.as_posix(), folder, True)
    scheme = urlsplit(text).scheme
    try:
        filesystem, root = pafs.FileSystem.from_uri(text)
    except (ValueError, OSError, NotImplementedError) as error:
        filesystem, root = _by_fsspec(text, shown, error)
    if not root.strip("/"):
        raise CaptureError(f"{shown}: name a bucket and a path in it")
    return Place(shown, filesystem, root, None, scheme.split("+")[0] in _OBJECT_STORES)


def _by_fsspec(url: str, shown: str, reason: Exception) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise CaptureError(f"{shown}: {_first_line(reason)} (more kinds of stores: pip install fsspec)") from reason
    try:
        filesystem, root = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError, OSError) as error:
        raise CaptureError(f"{shown}: {_first_line(error)}") from error
    return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem)), root


def _modified(info: Any) -> float:
    return 0.0 if info.mtime_ns is None else info.mtime_ns / 1e9


def _sync_folder(folder: Path) -> None:
    # A rename is safe from a power cut only once its folder is on disk too.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    """Stores raise whatever their client libraries do; here it is all OSError with one line."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {_first_line(error)}") from error
