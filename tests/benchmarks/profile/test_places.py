"""Samples are told apart by the system call they lie under, or by the library that ran."""

from collections import Counter

from benchmarks.profile.page import Profile, page
from benchmarks.profile.places import places
from benchmarks.proxy.workloads import chosen

KERNEL = "([kernel.kallsyms])"
SCRIPT = f"""
    ffffffff82025a80 __tcp_transmit_skb {KERNEL}
    ffffffff816b98aa ksys_write {KERNEL}
    ffffffff81000130 entry_SYSCALL_64_after_hwframe {KERNEL}
               f838f __GI___libc_write (/usr/lib/libc.so.6)

    ffffffff820f2413 tcp_recvmsg {KERNEL}
    ffffffff81e2cd59 __sys_recvfrom {KERNEL}

    ffffffff813a2413 finish_task_switch.isra.0 {KERNEL}
    ffffffff821f8914 do_epoll_wait {KERNEL}
              108cae epoll_pwait (/usr/lib/libc.so.6)

    ffffffff813a2413 clear_page {KERNEL}
    ffffffff821f8914 handle_mm_fault {KERNEL}

              1c1461 type_call (/opt/python/lib/libpython3.11.so.1.0)
        7fc5a2062480 [unknown] ([unknown])

              1c1461 run (/opt/uvloop/loop.cpython-311-x86_64-linux-gnu.so)

              1c1461 main.(*Link).copy (/opt/toxiproxy-v2.12.0)

              1c1461 [unknown] ([vdso])
"""


def test_a_sample_is_where_its_innermost_frame_is_and_in_the_kernel_what_was_asked_of_it() -> None:
    assert places(SCRIPT) == {
        "sending": 1,
        "receiving": 1,
        "waiting": 1,
        "other kernel": 1,
        "libpython": 1,
        "loop": 1,
        "toxiproxy": 1,
        "[vdso]": 1,
    }


def test_the_page_shares_the_cpu_of_a_request_out_by_the_samples() -> None:
    samples = Counter({"sending": 50, "waiting": 20, "other kernel": 10, "libpython3.11": 15, "loop": 5})
    [workload] = chosen("hundred")
    machine = {"processor": "P", "cores": "2", "kernel": "6", "python": "3"}
    text = page([Profile(workload, "notleader", 20.0, samples)], machine)
    assert "## 100 connections of small requests" in text
    row = "| notleader | 20.0 | 10.0 | 0.0 | 4.0 | 2.0 | 4.0 | libpython3.11 3.0, loop 1.0 |"
    assert row in text.splitlines()
