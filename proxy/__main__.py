"""The entry point: Ctrl-C ends the command without a traceback even while it is still importing."""

import signal
import sys

signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    """Run the ``notleader`` command."""
    if sys.argv[1:2] == ["run"]:
        # A proxy lives long: what only the other commands need takes half as much memory again.
        from proxy.run_cli import alone as app
    else:
        from proxy.cli import app

    signal.signal(signal.SIGINT, signal.default_int_handler)
    app(prog_name="notleader")


if __name__ == "__main__":
    main()
