"""The entry point: Ctrl-C ends the command without a traceback, even while Python still imports it."""

from __future__ import annotations

# Not `signal`: what that imports first takes longer than everything up to here.
import _signal  # type: ignore[import-not-found]
import errno
import os
import sys

TYPE_CHECKING = False  # not `typing`'s, for the same reason
if TYPE_CHECKING:
    from typer import Typer

_signal.signal(_signal.SIGINT, _signal.SIG_DFL)
# They take the signals themselves.
_SERVERS = ("run", "replay", "toxiproxy")


def main() -> None:
    """Run the ``notleader`` command."""
    for stream in (sys.stdout, sys.stderr):
        # Under LC_ALL=C, or with a file name of no encoding, a "?" is printed in place of a traceback.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    word = sys.argv[1] if len(sys.argv) > 1 else None
    if word == "run":
        # A proxy lives long: what only the other commands need, or only the help of this one, takes half as much memory
        # again. Until its event loop takes the signals over there is nothing to clean up.
        from notleader.proxy.control.flags import read

        if (asked := read(sys.argv[2:])) is not None:
            from notleader.proxy.control.serving import serve

            sys.exit(serve(asked))
    elif word == "analyze":
        from notleader.proxy.cli.analyze import become

        sys.exit(become(sys.argv[2:]))
    from notleader.proxy.cli.alone import alone

    asked_for = alone(word)
    if asked_for is None:
        from notleader.proxy.cli.app import app

        asked_for = app
    elif word in _SERVERS:
        asked_for(prog_name="notleader")
    sys.exit(_interruptible(asked_for))


def _interruptible(app: Typer) -> int:
    """Run a command that may have something to clean up: Ctrl-C is an exception in it, once it is to begin."""
    from typer.main import get_command

    command = get_command(app)  # takes typer a while
    try:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        command(prog_name="notleader")
    except KeyboardInterrupt:  # before click minds it, or behind
        return 130
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        # What is left of it must not fail once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"notleader: can't write to stdout: {error.strerror}\n")
        return 2
    finally:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    return 0


if __name__ == "__main__":
    main()
