"""A proxy loads what it uses, and gives back what only starting needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from notleader.proxy.record.memory import _clean_ranges

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
from notleader.proxy.record.memory import give_back

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


def test_a_proxy_without_an_api_loads_neither_arrow_nor_a_web_server_nor_typer() -> None:
    program = """
import sys, notleader.proxy.control.flags, notleader.proxy.control.serving, notleader.proxy.net.server
print(sorted({"pyarrow", "fastapi", "uvicorn", "httpx", "aiokafka", "typer", "click", "rich"} & set(sys.modules)))
"""
    assert run(program).strip() == "[]"


def test_the_library_for_metrics_is_loaded_by_who_asks_for_them() -> None:
    program = """
import sys, notleader.proxy.admin.serve
print("prometheus_client" in sys.modules)
import notleader.proxy.admin.exposition
print("prometheus_client" in sys.modules)
"""
    assert run(program).split() == ["False", "True"]


def test_not_even_one_that_records_and_is_watched_loads_arrow(tmp_path: Path) -> None:
    """Its recorder does, and gives back what Arrow touched of its libraries while it was loaded."""
    program = f"""
import asyncio, sys
from pathlib import Path
from notleader.proxy import Proxy

async def main():
    proxy = Proxy.in_front_of("127.0.0.1:1")
    await proxy.start_capture({str(tmp_path)!r}, "payload")
    with proxy.subscribe() as rows:
        proxy.capture.mark("here")
        async with asyncio.timeout(60):
            print((await rows.get())["detail"])
    await proxy.capture.rotate()
    print(proxy.capture.segments)
    lines = Path(f"/proc/{{proxy.capture.recorder_pid}}/status").read_text().splitlines()
    print(next(int(line.split()[1]) for line in lines if line.startswith("RssFile")) < 75 << 10)
    await proxy.stop_capture()

asyncio.run(main())
print("pyarrow" in sys.modules)
"""
    assert run(program).split() == ["here", "1", "True", "False"]
