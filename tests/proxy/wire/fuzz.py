"""Lets atheris (libFuzzer) look for a conversation that crashes the proxy's session or takes its memory.

    pip install atheris        # not among what make test needs
    python -m tests.proxy.wire.fuzz [-max_total_time=600] [libFuzzer's own flags]

It starts from the recorded frames of real clients and from the kept attacks. What it finds is a file named
crash-…: keep it with `python -m tests.proxy.wire.hostile add NAME FILE`, then mend the proxy.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

try:
    import atheris
except ImportError:
    raise SystemExit("atheris is not installed: pip install atheris (Linux, Python 3.11)") from None

with atheris.instrument_imports(include=["notleader"]):
    from tests.proxy.wire.hostile import from_fuzzer, honest, kept, play, to_fuzzer

_LARGEST_SEED_BYTES = 4096


def one(data: bytes) -> None:
    """What libFuzzer calls; any exception is a find."""
    attack = from_fuzzer("fuzzed", data)
    for reading in (True, False):
        play(attack, reading=reading)


def main() -> None:
    """Fuzzes until told to stop."""
    with tempfile.TemporaryDirectory(prefix="notleader-fuzz-") as folder:
        for number, attack in enumerate((*honest(), *(attack for attack, _ in kept()))):
            data = to_fuzzer(attack)
            if len(data) <= _LARGEST_SEED_BYTES:
                Path(folder, str(number)).write_bytes(data)
        atheris.Setup([sys.argv[0], "-max_len=8192", "-rss_limit_mb=2048", "-timeout=20", *sys.argv[1:], folder], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
