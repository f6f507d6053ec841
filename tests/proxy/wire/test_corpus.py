"""Every conversation that was written, or found by a fuzzer, to do harm is played again: it does none."""

from __future__ import annotations

import tracemalloc

import pytest

from notleader.proxy.record.rows import Level
from notleader.proxy.wire.decoder import MAX_OBJECT_BYTES
from tests.proxy.wire.hostile import Attack, from_fuzzer, honest, kept, play, to_fuzzer

KEPT = list(kept())
# One body's objects, or what one batch decompresses to, and what reading records copies of that.
MOST_BYTES = MAX_OBJECT_BYTES + (128 << 20)
SMALL = 600


def ids(case: tuple[Attack, str]) -> str:
    return case[0].name


@pytest.mark.parametrize("case", KEPT, ids=ids)
def test_it_does_no_harm_and_the_reason_is_written_down(case: tuple[Attack, str]) -> None:
    attack, reason = case
    size = len(attack.client) + len(attack.broker)
    tracemalloc.start()
    try:
        said = play(attack, reading=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert said[-1].startswith("disconnect: ")
    assert next(line for line in said if line.startswith("disconnect: over") or line) == (reason or said[-1])
    assert peak < MOST_BYTES + 6 * size
    play(attack, reading=False)
    # At this level large frames are read while they pass.
    play(attack, reading=False, level=Level.PARTITION, step=5000)
    if size < SMALL:
        assert play(attack, reading=True, step=1) == said, "however it arrives"


def test_the_corpus_has_every_kind_of_lie() -> None:
    reasons = "\n".join(reason for _, reason in KEPT)
    for lie in ("HTTP", "TLS", "frame length", "varint", "tagged fields", "room for", "too early",
                "128 MiB", "when decompressed", "correlation id", "broken records"):  # fmt: skip
        assert lie in reasons, lie


def test_what_a_fuzzer_finds_can_be_kept() -> None:
    for attack in honest():
        assert from_fuzzer(attack.name, to_fuzzer(attack)) == attack
