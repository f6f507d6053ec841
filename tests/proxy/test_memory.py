"""A proxy loads what it uses, and gives back what only starting needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from notleader.proxy.memory import _clean_ranges

SMAPS = """\
1000-3000 r-xp 00000000 fe:00 7                                /lib/large.so
Rss:                   8 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
3000-4000 r--p 00002000 fe:00 7                                /lib/large.so
Rss:                   4 kB
Anonymous:             4 kB
VmFlags: rd mr mw me
4000-5000 rw-p 00003000 fe:00 7                                /lib/large.so
Anonymous:             0 kB
VmFlags: rd wr mr mw me
5000-6000 r--p 00000000 00:00 0
Anonymous:             0 kB
VmFlags: rd mr mw me
6000-7000 r--s 00000000 fe:00 9                                /shared
Anonymous:             0 kB
VmFlags: rd mr mw me
7000-8000 r-xp 00000000 00:00 0                                [vdso]
Anonymous:             0 kB
VmFlags: rd ex mr mw me
8000-9000 r--p 00000000 fe:00 8                                /lib/other.so
Anonymous:             0 kB
VmFlags: rd mr mw me
"""


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


def test_only_what_a_file_still_holds_as_it_is_mapped_is_given_back() -> None:
    found = dict(_clean_ranges(SMAPS))
    assert list(found.values()) == [(0x1000, 0x3000), (0x8000, 0x9000)]
    assert set(found) <= set(SMAPS.splitlines())


def test_libraries_work_on_after_their_pages_were_given_back() -> None:
    program = """
import zlib, pyarrow as pa, pyarrow.parquet as pq, io
from pathlib import Path
from notleader.proxy.memory import give_back

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssFile"))

before = resident()
give_back()
after = resident()
table = pa.table({"a": list(range(1000))})
sink = io.BytesIO()
pq.write_table(table, sink, compression="zstd")
assert pq.read_table(io.BytesIO(sink.getvalue())).equals(table)
give_back()
print(after < before / 2, resident() < before / 2)
"""
    assert run(program).split() == ["True", "True"]


def test_what_a_thread_has_freed_is_given_back_though_it_once_freed_more_at_a_time() -> None:
    program = """
import threading
from pathlib import Path
from notleader.proxy.memory import give_back

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("RssAnon"))

def work():
    bytearray(30 << 20)
    before = resident()
    pieces = [bytearray(b"x" * (1 << 20)) for _ in range(24)]
    during = resident()
    del pieces
    kept = resident()
    give_back()
    print(during - before > 20, kept - before > 20, resident() - before < 4)

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    assert run(program).split() == ["True", "True", "True"]


def test_a_proxy_without_a_capture_and_without_an_api_loads_neither_arrow_nor_a_web_server_nor_typer() -> None:
    program = """
import sys, proxy.flags, proxy.serving, proxy.server
print(sorted({"pyarrow", "fastapi", "uvicorn", "httpx", "aiokafka", "typer", "click", "rich"} & set(sys.modules)))
"""
    assert run(program).strip() == "[]"


def test_a_capture_that_goes_to_a_store_after_all_finds_it() -> None:
    program = """
from notleader.proxy.memory import leave_out
leave_out()
from notleader.proxy.capture.place import open_place
print(type(open_place("folder").filesystem).__name__)
for _ in range(2):
    place = open_place("s3://key:secret@bucket/prefix?scheme=http&endpoint_override=127.0.0.1:1&region=here")
    print(type(place.filesystem).__name__)
"""
    assert run(program).split() == ["LocalFileSystem", "S3FileSystem", "S3FileSystem"]


@pytest.mark.parametrize(
    ("capture", "stores"), [("None", False), ("'folder'", False), ("'s3://bucket/prefix?region=here'", True)]
)
def test_what_fastapi_and_arrow_look_for_is_left_out_where_nobody_needs_it(capture: str, stores: bool) -> None:
    program = f"""
import sys
from notleader.proxy.memory import leave_out
leave_out()
import pyarrow.fs, proxy.admin.serve
from notleader.proxy.capture.place import open_place
if {capture} is not None:
    open_place({capture})
loaded = [name for name, module in sys.modules.items() if module is not None]
print("pydantic.v1.main" in loaded, "pyarrow._s3fs" in loaded)
"""
    assert run(program).split() == ["False", str(stores)]
