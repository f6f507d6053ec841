"""A Spark that stays: `notleader analyze` leaves it behind, the next one finds it, and its verdict takes seconds.

Most of a short analysis is Spark's start and Java's learning. So the first analysis of a user starts this process; it
does that one and those that follow, one at a time, and ends by itself when nobody asked for `IDLE_S`. It listens on a
Unix socket in a folder of the user's own (0700), named by all that has to match: Spark, Java, Python, notleader's
own sources. Each analysis gets a Spark session of its own; nothing of one is visible to the next.

Lines of JSON on the socket: the caller sends `{"asked": {…}}`; `{"progress": …}`, `{"said": …}` (what is to be printed
already) and at last `{"out", "err", "code"}` or `{"unable": …}` come back. `{"stop": true}` ends it. A caller that goes
away ends it too: what it asked for is nobody's.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final

IDLE_S: Final = 600.0
_START_S: Final = 120.0
_BREATH_S: Final = 3.0
_STOP_S: Final = 10.0
_JAVA_S: Final = 2.0
_STARTING: Final = ".starting"
_MOST_JOBS: Final = 500  # Java's memory of generated classes grows with each

Progress = Callable[[str], None]
Say = Callable[[str], None]
Job = Callable[[dict[str, Any], Progress, Say], tuple[str, str, int]]
"""An analysis: what was asked for, in; what is still to be printed on stdout and stderr and the exit code, out."""


class UnavailableError(Exception):
    """There is no resident Spark and none can be started here; the analysis is to be done in this process."""


def folder() -> Path:
    """Where the sockets are: the user's own, 0700. Raises UnavailableError."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    if not base or not os.access(base, os.W_OK):
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    place = Path(base) / "notleader" / "spark"
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        place.chmod(0o700)
        owner = place.stat().st_uid
    except (OSError, RuntimeError) as error:
        raise UnavailableError(str(error)) from error
    if owner != os.getuid() or len(bytes(place)) > 80:  # a socket's path has at most 107 bytes
        raise UnavailableError(f"{place} can't hold a socket of this user")
    return place


def key() -> str:
    """What a resident Spark must have been started with to be of use here."""
    here = Path(__file__).parent
    sources = sorted((str(file), file.stat().st_mtime_ns) for file in here.rglob("*.py"))
    spark = next((str(Path(place) / "pyspark") for place in sys.path if (Path(place) / "pyspark").is_dir()), "")
    told = [sys.executable, sys.version, spark, os.environ.get("JAVA_HOME"), os.environ.get("PATH"), sources]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def is_there() -> bool:
    """Whether one that `ask` would ask seems to be running."""
    return (folder() / f"{key()}.sock").exists()


def start() -> bool:
    """See to it that one is there, and has started; whether it was started here. Raises UnavailableError."""
    place = folder() / f"{key()}.sock"
    there = _connected(place)
    (there or _started(place)).close()
    return there is None


def dismiss() -> None:
    """Let the one that `ask` would ask end when it has done what it does; nothing happens where there is none."""
    connection = _connected(folder() / f"{key()}.sock")
    if connection is not None:
        with connection, connection.makefile("w", encoding="utf-8") as lines:
            _send(lines, {"stop": True})


def ask(asked: dict[str, Any], progress: Progress, say: Say = lambda _: None, *, leave: bool) -> tuple[str, str, int]:
    """Have an analysis done by the resident Spark; its stdout, stderr and exit code.

    `say` is given what is to be printed before all is done, where there is such; stdout is what comes after that.
    With `leave`, one is started where there is none, and stays. Raises UnavailableError.
    """
    place = folder() / f"{key()}.sock"
    connection = _connected(place)
    if connection is None:
        if not leave:
            raise UnavailableError("there is none")
        progress("starting Spark")
        connection = _started(place)
    with connection, connection.makefile("rw", encoding="utf-8") as lines:
        _send(lines, {"asked": asked})
        for line in lines:
            said = json.loads(line)
            if "progress" in said:
                progress(said["progress"])
            elif "said" in said:
                say(said["said"])
            elif "unable" in said:
                raise UnavailableError(said["unable"])
            else:
                return said["out"], said["err"], said["code"]
    raise UnavailableError("it ended in the middle of the analysis")


def stop() -> int:
    """End every resident Spark of this user, also one that is starting; how many there were."""
    try:
        here = folder()
    except UnavailableError:
        return 0
    # Before the sockets are looked at: what has started by then is found by its socket.
    ended = sum(_ended_while_starting(mark) for mark in sorted(here.glob(f"*{_STARTING}")))
    for place in sorted(here.glob("*.sock")):
        connection = _connected(place)
        if connection is None:
            place.unlink(missing_ok=True)
            continue
        with connection, connection.makefile("rw", encoding="utf-8") as lines:
            _send(lines, {"stop": True})
            lines.read()
        until = time.monotonic() + _STOP_S
        while place.exists() and time.monotonic() < until:
            time.sleep(0.02)
        ended += 1
    return ended


def _ended_while_starting(mark: Path) -> bool:
    """End the process that a mark is of, where it still is that process."""
    place, pid = mark.with_suffix("").with_suffix(".sock"), int(mark.suffixes[0][1:])
    is_it = _is_resident(pid, place)
    if is_it:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + _STOP_S
        while _is_resident(pid, place) and time.monotonic() < until:
            time.sleep(0.02)
    mark.unlink(missing_ok=True)
    return is_it


def _is_resident(pid: int, place: Path) -> bool:
    """Whether that process is the Spark for this socket: a process id may have gone to another."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        if Path("/proc/self").exists():
            return False
        asked = ["ps", "-p", str(pid), "-o", "command="]
        words = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    return __name__ in words and str(place) in words


def serve(
    place: Path,
    job: Job,
    *,
    rest: Callable[[], None] = lambda: None,
    idle_s: float = IDLE_S,
    breath_s: float = _BREATH_S,
    told: IO[str] = sys.stderr,
) -> None:
    """Do the analyses that are asked for at the socket `place`, until nobody asked for `idle_s`, or one says stop.

    `rest` is what is done when a caller has its answer and nobody has asked for `breath_s` since.
    """
    before = os.umask(0o177)
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Made beside and moved: whoever sees the socket can connect to it.
        fresh = place.with_suffix(f".{os.getpid()}")
        fresh.unlink(missing_ok=True)
        listener.bind(str(fresh))
        listener.listen()
        fresh.replace(place)
        _mark(place, os.getpid()).unlink(missing_ok=True)
    finally:
        os.umask(before)
    identity = place.stat().st_ino
    try:
        jobs, at_rest = 0, True
        while jobs < _MOST_JOBS:
            listener.settimeout(idle_s if at_rest else breath_s)
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                if at_rest:
                    break
                rest()
                at_rest = True
                continue
            connection.settimeout(None)
            with connection:
                went_on = _answered(connection, job, told)
            if went_on is None:
                continue
            if not went_on:
                break
            jobs, at_rest = jobs + 1, False
    finally:
        listener.close()
        with contextlib.suppress(OSError):
            if place.stat().st_ino == identity:
                place.unlink()


def _answered(connection: socket.socket, job: Job, told: IO[str]) -> bool | None:
    """Do what one caller asks; False when it was to stop, None when it asked for nothing."""
    if not _is_own(connection):
        return None
    with connection.makefile("rw", encoding="utf-8") as lines:
        try:
            wanted = json.loads(lines.readline() or "null")
        except ValueError:
            return None
        if not isinstance(wanted, dict):
            return None  # whoever only looks whether somebody listens
        if wanted.get("stop"):
            return False
        with _ended_with(connection):
            try:
                out, err, code = job(
                    wanted["asked"],
                    lambda what: _send(lines, {"progress": what}),
                    lambda what: _send(lines, {"said": what}),
                )
                said: dict[str, Any] = {"out": out, "err": err, "code": code}
            except Exception as error:
                told.write(f"{type(error).__name__}: {error}\n")
                said = {"unable": f"{type(error).__name__}: {error}"}
        with contextlib.suppress(OSError):
            _send(lines, said)
    return "unable" not in said  # a Spark that failed so is not to be met again


@contextlib.contextmanager
def _ended_with(connection: socket.socket) -> Iterator[None]:
    """While this lasts, end this process when the caller goes away, Ctrl-C for one: Spark can't be told to let go."""
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            try:
                gone = connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
            except BlockingIOError:
                gone = False
            except OSError:
                gone = True
            if gone and not over.is_set():
                os.kill(os.getpid(), signal.SIGTERM)
                return
            over.wait(0.2)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


def _is_own(connection: socket.socket) -> bool:
    """Whether the caller is the same user, by the kernel's word where it gives one."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    said = connection.getsockopt(socket.SOL_SOCKET, option, 12)
    return int.from_bytes(said[4:8], sys.byteorder) in (os.getuid(), 0)


def _connected(place: Path) -> socket.socket | None:
    try:
        found = place.stat()
        if found.st_uid != os.getuid() or not stat.S_ISSOCK(found.st_mode):
            return None
    except OSError:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(place))
    except OSError:
        connection.close()
        return None
    return connection


def _started(place: Path) -> socket.socket:
    log = place.with_suffix(".log")
    with log.open("wb") as output:
        started = subprocess.Popen(
            [sys.executable, "-P", "-m", "notleader.spark_analysis.resident", str(place)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    mark = _mark(place, started.pid)
    try:
        mark.touch()
        until = time.monotonic() + _START_S
        while time.monotonic() < until:
            connection = _connected(place)
            if connection is not None:
                started.returncode = 0  # it outlives this process, which shall not complain of that
                return connection
            if started.poll() is not None:
                raise UnavailableError(f"it ended while it started: {log}")
            time.sleep(0.05)
        started.terminate()
        raise UnavailableError(f"it did not start in {_START_S:.0f} s: {log}")
    except (KeyboardInterrupt, SystemExit):
        started.terminate()  # nobody waits for it any more
        started.wait()
        raise
    finally:
        mark.unlink(missing_ok=True)


def _mark(place: Path, pid: int) -> Path:
    """What lies beside the socket's place while that process starts."""
    return place.with_suffix(f".{pid}{_STARTING}")


def _send(lines: IO[str], said: dict[str, Any]) -> None:
    lines.write(json.dumps(said) + "\n")
    lines.flush()


def _end(*_: object) -> None:
    """End this process, and Java with it: by the end of our pipe alone it would go on until it has started."""
    if os.getpgrp() == os.getpid():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
        until = time.monotonic() + _JAVA_S
        with contextlib.suppress(ChildProcessError):
            while time.monotonic() < until:
                os.waitpid(-1, os.WNOHANG)
                time.sleep(0.02)
            os.killpg(0, signal.SIGKILL)
    os._exit(0)


def main(place: Path) -> int:
    """Start Spark, then serve."""
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from notleader.spark_analysis.cli import resident_job

    idle_s = float(os.environ.get("NOTLEADER_SPARK_IDLE_S") or IDLE_S)
    with resident_job() as (job, rest):
        serve(place, job, rest=rest, idle_s=idle_s)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
