"""Exchanges put into a block as numbers, in Python: what the compiled writer does, said once more."""

from __future__ import annotations

from notleader.proxy.record.block import NONE, Block, Part

_MASK = (1 << 64) - 1


def varint(number: int) -> bytes:
    found = b""
    while number >= 0x80:
        found += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return found + bytes((number,))


def signed(number: int) -> bytes:
    number = (number + (1 << 63) & _MASK) - (1 << 63)
    return varint((number << 1 ^ number >> 63) & _MASK)


class Packer:
    """Puts rows into a block, as `notleader.proxy.record.block.Row` has them."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._before_us = 0
        self._template = 0
        self._lasts: dict[int, Part] = {}

    def put(self, *row: int, parts: tuple[Part, ...] = ()) -> None:
        who, what, seq, correlation_id, request_at_us, *times, request_bytes, response_bytes, count = row
        since = [0 if at_us == NONE else at_us - request_at_us + 1 for at_us in times]
        assert count == len(parts) or count < 0
        block = self.block
        for used, place in zip(block.used, (who, what), strict=False):
            used += [] if place in used else [place]
        block.numbers += varint(who) + varint(what) + signed(seq) + signed(correlation_id - seq)
        block.numbers += signed(request_at_us - self._before_us) + varint(since[0]) + varint(since[1])
        block.numbers += signed(since[2] - since[1]) + varint(request_bytes) + varint(response_bytes)
        block.numbers += varint(count + 1) + b"".join(map(self._part, parts))
        block.rows, block.parts = block.rows + 1, block.parts + len(parts)
        self._before_us = request_at_us

    def _part(self, part: Part) -> bytes:
        template = part[0]
        if template not in self._lasts:
            self.block.used[2].append(template)
        _, sequence, records, size, offset = self._lasts.get(template, (0,) * 5)
        expected = (_after(sequence, records), records, size, _after(offset, records))
        differs = template - self._template
        number = (differs << 1 ^ differs >> 63) & _MASK
        self._template = template
        self._lasts[template] = part
        if expected == part[1:]:
            return varint(number << 1)
        return varint(number << 1 | 1) + b"".join(
            signed(one - wanted) for one, wanted in zip(part[1:], expected, strict=True)
        )


def _after(number: int, records: int) -> int:
    if number < 0:
        return number
    return (number + records + (1 << 63) & _MASK) - (1 << 63)
