"""The entry point: Ctrl-C ends the command without a traceback even while it is still importing."""

import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    """Run the ``notleader`` command."""
    from proxy.cli import app

    signal.signal(signal.SIGINT, signal.default_int_handler)
    app(prog_name="notleader")


if __name__ == "__main__":
    main()
