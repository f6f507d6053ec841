"""Many clients of one Python library in one process: jobs come as JSON lines on stdin, and their ends go to stdout.

Argument: the library; and `once` when the process is to end, without closing its client, with its first job. The
clients are recorded as users record theirs.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jobs import LIBRARY, ONCE

client = importlib.import_module(f"with_{LIBRARY.replace('-', '_')}")
_writing = threading.Lock()


def ended(job: dict[str, Any], error: BaseException | None = None) -> None:
    with _writing:
        print(json.dumps({"job": job["job"], "error": None if error is None else repr(error)}), flush=True)
        if ONCE:
            os._exit(0)


async def in_loop() -> None:
    loop = asyncio.get_running_loop()
    running = set()

    async def work(job: dict[str, Any]) -> None:
        try:
            await getattr(client, job["role"])(job)
        except Exception as error:
            ended(job, error)
        else:
            ended(job)

    while line := await loop.run_in_executor(None, sys.stdin.readline):
        task = asyncio.ensure_future(work(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)


def in_threads() -> None:
    def work(job: dict[str, Any]) -> None:
        try:
            getattr(client, job["role"])(job)
        except Exception as error:
            ended(job, error)
        else:
            ended(job)

    with ThreadPoolExecutor(200) as pool:
        for line in sys.stdin:
            pool.submit(work, json.loads(line))


if __name__ == "__main__":
    if LIBRARY == "aiokafka":
        asyncio.run(in_loop())
    else:
        in_threads()
    os._exit(0)
