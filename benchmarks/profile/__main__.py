"""``python -m benchmarks.profile``: profile notleader and its nearest peers under small requests, print, write."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.profile.page import Profile, page
from benchmarks.profile.places import places
from benchmarks.proxy import notleader, peers, rounds
from benchmarks.proxy.cache import load_program, required
from benchmarks.proxy.errors import UnavailableError
from benchmarks.proxy.processes import family
from benchmarks.proxy.report import machine
from benchmarks.proxy.targets import Running
from benchmarks.proxy.workloads import Workload, chosen, picked

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "what-is-in-the-way.md"
_WARM_UP_S = 1.0
_SAMPLES_PER_S = 1999


def main(
    workloads: Annotated[
        str, typer.Option(help="Loads of small requests, comma-separated.")
    ] = "one-cpu,hundred,thousand",
    peer: Annotated[str, typer.Option("--peers", help="Peers to profile beside it.")] = "nginx,haproxy,toxiproxy",
    duration: Annotated[float, typer.Option(min=0.5, help="Seconds for each.")] = 6.0,
    write_page: Annotated[bool, typer.Option("--page", help="Also write docs/what-is-in-the-way.md.")] = False,
) -> None:
    """Where the CPU of a small request goes. Needs perf (Debian: linux-perf), and to be root or allowed to use it."""
    progress = Console(stderr=True)
    try:
        text = page(_profiles(chosen(workloads), peer, duration, progress), machine())
    except (ValueError, UnavailableError) as error:
        progress.print(f"profile: {error}", markup=False)
        raise typer.Exit(2) from error
    typer.echo(text)
    if write_page:
        _PAGE.write_text(text)


def _profiles(workloads: list[Workload], peer: str, duration_s: float, progress: Console) -> list[Profile]:
    perf = required("perf", "it takes the profile; Debian has it in linux-perf")
    program = load_program()
    states = [notleader.target(state) for state in (notleader.PLAIN, notleader.ALL_ON)]
    targets = [*(made() for made in picked(peer, peers.PEERS, "peer")), *states]
    profiles = []
    with tempfile.TemporaryDirectory(prefix="notleader-profile-") as scratch:
        folder = Path(scratch)
        with (
            rounds.broker(program, folder) as port,
            rounds.started(targets, port, folder, lambda line: progress.print(line, markup=False)) as running,
        ):
            for workload in workloads:
                for one in running[1:]:
                    progress.print(f"{workload.name} through {one.target.name}", markup=False, highlight=False)
                    with workload.placed():
                        profiles.append(_profile(perf, program, workload, one, duration_s, folder / "perf.data"))
    return profiles


def _profile(perf: str, program: Path, workload: Workload, running: Running, duration_s: float, data: Path) -> Profile:
    assert running.pid is not None
    name = running.target.name
    rounds.load(program, workload.command(running.address, _WARM_UP_S, 0.2), name)
    pids = ",".join(map(str, family(running.pid)))
    record = [perf, "record", "--quiet", "--event=cpu-clock", f"--freq={_SAMPLES_PER_S}", "-g"]
    record += [f"--output={data}", f"--pid={pids}"]
    before = rounds.used_cpu_s([running])[0]
    with subprocess.Popen(record, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as recording:
        try:
            saw = rounds.load(program, workload.command(running.address, duration_s, 0.2), name)
            cpu_s = rounds.used_cpu_s([running])[0] - before
        finally:
            recording.send_signal(signal.SIGINT)
            said = recording.communicate()[1]
    script = [perf, "script", "-i", str(data), "-F", "ip,sym,dso"]
    told = subprocess.run(script, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace").stdout
    samples = places(told)
    if not samples:
        raise UnavailableError(f"perf saw nothing of {name}: {said.strip()[-300:] or 'no sample'}")
    return Profile(workload, name, cpu_s / saw["total_requests"] * 1e6, samples)


if __name__ == "__main__":
    typer.run(main)
