"""Where the bench has its processes run."""

import os
import subprocess
import sys

from benchmarks.proxy.processes import on_one_cpu

WITH_A_THREAD = (
    "import os, sys, threading; threading.Thread(target=sys.stdin.read).start(); "
    "print(*os.listdir('/proc/self/task'), flush=True)"
)


def test_all_threads_of_all_processes_share_one_cpu_for_a_while() -> None:
    usual = os.sched_getaffinity(0)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", WITH_A_THREAD], stdin=pipe, stdout=pipe, text=True) as before:
        assert before.stdout is not None
        threads = [0, *map(int, before.stdout.readline().split())]
        assert len(threads) == 3
        with on_one_cpu():
            placed = [os.sched_getaffinity(thread) for thread in threads]
            assert len(placed[0]) == 1
            assert placed == [placed[0]] * 3
            asked = "import os; print(len(os.sched_getaffinity(0)))"
            assert subprocess.check_output([sys.executable, "-c", asked]).strip() == b"1"
        assert [os.sched_getaffinity(thread) for thread in threads] == [usual] * 3
