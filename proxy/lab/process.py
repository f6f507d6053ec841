"""Child processes that never outlive the one that started them."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Literal

from notleader.proxy.lab.errors import LabError

# Reads "add PGID" and "del PGID" lines, "tmp FOLDER" and "keep FOLDER"; when the pipe closes (the parent ended, by
# whatever means) it ends every process group and deletes every folder still on its lists. It ignores the terminal's
# signals, so Ctrl-C can't end it first.
_WATCHDOG = r"""
trap '' INT TERM HUP
groups=' '
folders=
newline='
'
while read -r verb what; do
  case $verb in
    add) groups="$groups$what " ;;
    del) groups="${groups%% $what *} ${groups#* $what }" ;;
    tmp) folders="$folders$what$newline" ;;
    keep) folders=$(printf %s "$folders" | grep -Fxv -- "$what")$newline ;;
  esac
done
delete() {
  printf %s "$folders" | while IFS= read -r folder; do [ -z "$folder" ] || rm -rf -- "$folder"; done
  exit 0
}
for group in $groups; do kill -TERM -"$group" 2>/dev/null; done
tries=0
while [ $tries -lt 20 ]; do
  alive=
  for group in $groups; do kill -0 -"$group" 2>/dev/null && alive=1; done
  [ -z "$alive" ] && delete
  sleep 0.1
  tries=$((tries + 1))
done
for group in $groups; do kill -KILL -"$group" 2>/dev/null; done
delete
"""


class _Watchdog:
    """One small shell per parent process, started with the first child and told of every later one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shell: subprocess.Popen[bytes] | None = None
        self._owner_pid = 0

    def pipe(self) -> IO[bytes]:
        """Where the shell reads; starts it when it doesn't run."""
        with self._lock:
            if self._shell is None or self._owner_pid != os.getpid():
                self._shell = subprocess.Popen(
                    ["/bin/sh", "-c", _WATCHDOG],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    bufsize=0,
                )
                self._owner_pid = os.getpid()
                atexit.register(self.close)
            assert self._shell.stdin is not None
            return self._shell.stdin

    def tell(self, verb: str, what: object) -> None:
        pipe = self.pipe()
        with self._lock, contextlib.suppress(BrokenPipeError):
            pipe.write(f"{verb} {what}\n".encode())

    def close(self) -> None:
        """End the shell, which first ends what is still on its list; waits for both."""
        with self._lock:
            if self._shell is None or self._owner_pid != os.getpid():
                return
            assert self._shell.stdin is not None
            self._shell.stdin.close()
            self._shell.wait()
            self._shell = None
            atexit.unregister(self.close)


_watchdog = _Watchdog()
# The child tells the watchdog of itself before it becomes the program: a parent killed between the two leaves
# nobody unwatched. Its standard input is the watchdog's pipe until then.
_ENROLL = 'echo "add $$" >&0; exec "$@" </dev/null'


def temporary_folder(prefix: str) -> Path:
    """A new folder that is deleted when this process ends, by whatever means, unless it is kept."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    _watchdog.tell("tmp", folder)
    return folder


def keep_folder(folder: Path) -> None:
    """Leave a temporary folder where it is."""
    _watchdog.tell("keep", folder)


class Child:
    """A process in a session of its own, which ends, with all it started, when its parent does.

    Both outputs go to `log`, except stdout when there is a file for it or it is to be a pipe to read from.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        stdout: Path | Literal["pipe"] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.log = log
        with contextlib.ExitStack() as stack:
            errors = stack.enter_context(log.open("ab"))
            output: IO[bytes] | int = errors
            if stdout is not None:
                output = subprocess.PIPE if stdout == "pipe" else stack.enter_context(stdout.open("ab"))
            self.popen: subprocess.Popen[bytes] = subprocess.Popen(
                ["/bin/sh", "-c", _ENROLL, "sh", *argv],
                stdin=_watchdog.pipe(),
                stdout=output,
                stderr=errors,
                env=None if env is None else dict(env),
                cwd=cwd,
                start_new_session=True,
            )
            self._watched = True

    @property
    def pid(self) -> int:
        return self.popen.pid

    def cpu_ms(self) -> int | None:
        """The processor time that it took so far, without its children's; None where the system has no /proc."""
        try:
            *_, fields = Path(f"/proc/{self.pid}/stat").read_text("utf-8").rpartition(") ")
        except OSError:
            return None
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) * 1000 // os.sysconf("SC_CLK_TCK")

    def running(self) -> bool:
        return self.popen.poll() is None

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole group; nothing happens when it has ended."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the end and return the exit code; raises `subprocess.TimeoutExpired`."""
        code = self.popen.wait(timeout_s)
        self._forget()
        return code

    def ask_to_stop(self) -> None:
        """SIGTERM to the group, without waiting."""
        self.send_signal(signal.SIGTERM)

    def stop(self, grace_s: float = 10.0) -> int:
        """Ask the group to end, insist after `grace_s` seconds, and return the exit code once it has."""
        if self.running():
            self.ask_to_stop()
            try:
                return self.wait(grace_s)
            except subprocess.TimeoutExpired:
                pass
        return self.kill()

    def kill(self) -> int:
        """End the whole group at once (SIGKILL) and return the exit code."""
        self.send_signal(signal.SIGKILL)
        return self.wait()

    def release(self) -> None:
        """Let the process outlive its parent from now on."""
        # Not before it has told the watchdog of itself: its word would come after ours and undo it.
        while self.running() and not self._is_the_program():
            time.sleep(0.001)
        self._watched = False
        _watchdog.tell("del", self.pid)

    def _is_the_program(self) -> bool:
        words = Path(f"/proc/{self.pid}/cmdline").read_bytes()
        return bool(words) and _ENROLL.encode() not in words  # empty in mid-exec

    def _forget(self) -> None:
        if self.popen.stdout is not None:
            self.popen.stdout.close()
        if self._watched:
            # What the process itself may have left in its group ends with it.
            self.send_signal(signal.SIGKILL)
            self._watched = False
            _watchdog.tell("del", self.pid)


def filled(word: str, words: Mapping[str, str]) -> str:
    """A word of the command with its placeholders replaced; other braces stay."""
    for name, value in words.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def executable(command: Sequence[str], folder: Path = Path()) -> None:
    """Raise LabError when the command's program or the folder that it runs in isn't there, rather than in each try."""
    program = command[0]
    if not folder.is_dir():
        raise LabError(f"there is no folder {folder} to run {program!r} in")
    file = str(folder / program) if os.path.dirname(program) else program
    if shutil.which(file) is None and not os.access(file, os.X_OK):
        raise LabError(f"there is no program {program!r} to run" + (f" in {folder}" if folder != Path() else ""))
