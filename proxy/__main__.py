"""The entry point: Ctrl-C ends the command without a traceback, even while Python still imports it."""

# Not `signal`: what that imports first takes longer than everything up to here.
import _signal  # type: ignore[import-not-found]
import sys

_signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def main() -> None:
    """Run the ``notleader`` command."""
    if sys.argv[1:2] == ["run"]:
        # A proxy lives long: what only the other commands need, or only the help of this one, takes half as much memory
        # again. Until its event loop takes the signals over there is nothing to clean up.
        from notleader.proxy.control.flags import read

        if (asked := read(sys.argv[2:])) is not None:
            from notleader.proxy.control.serving import serve

            sys.exit(serve(asked))
        from notleader.proxy.cli.run import alone as app
    elif sys.argv[1:2] == ["analyze"]:
        from notleader.proxy.cli.analyze import become

        sys.exit(become(sys.argv[2:]))
    elif sys.argv[1:2] == ["replay"]:
        from notleader.proxy.cli.replay import alone as app
    elif sys.argv[1:2] == ["toxiproxy"]:
        from notleader.proxy.cli.toxiproxy import alone as app
    else:
        sys.exit(_any_other())
    app(prog_name="notleader")


def _any_other() -> int:
    """Run a command that may have something to clean up: Ctrl-C is an exception in it, once it is to begin."""
    from typer.main import get_command

    from notleader.proxy.cli.app import app

    command = get_command(app)  # takes typer a while
    try:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        command(prog_name="notleader")
    except KeyboardInterrupt:  # before click minds it, or behind
        return 130
    finally:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    return 0


if __name__ == "__main__":
    main()
