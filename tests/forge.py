"""Saved indexes taken apart and put together again, with a hash that fits, as a forger would."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

BLOCK = 64
"""packets of a block"""


def murmur3(data: bytes) -> bytes:
    """MurmurHash3's 128 bits, x64, with FFmpeg's seed."""
    mask = (1 << 64) - 1
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
    h1 = h2 = 0x725ACC55DADDCA55

    def turn(value: int, count: int) -> int:
        return (value << count | value >> (64 - count)) & mask

    def mix(value: int) -> int:
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 1):
            value = (value ^ value >> 33) * factor & mask
        return value

    whole = len(data) // 16 * 16
    blocks = [data[at : at + 16] for at in range(0, whole, 16)]
    for number, block in enumerate([*blocks, data[whole:].ljust(16, b"\0")]):
        k1, k2 = struct.unpack("<QQ", block)
        h1 ^= turn(k1 * c1 & mask, 31) * c2 & mask
        if number < len(blocks):
            h1 = ((turn(h1, 27) + h2) * 5 + 0x52DCE729) & mask
        h2 ^= turn(k2 * c2 & mask, 33) * c1 & mask
        if number < len(blocks):
            h2 = ((turn(h2, 31) + h1) * 5 + 0x38495AB5) & mask
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = (h1 + h2) & mask
    h2 = (h2 + h1) & mask
    h1, h2 = mix(h1), mix(h2)
    h1 = (h1 + h2) & mask
    return struct.pack("<QQ", h1, (h2 + h1) & mask)


def sign(index: bytes) -> bytes:
    """With the hash that fits."""
    return index[:32] + murmur3(index[:32] + index[48:]) + index[48:]


def put_number(value: int) -> bytes:
    """A number without a sign, of 7 bits a byte."""
    low = bytes([value & 127 | (128 if value > 127 else 0)])
    return low + (put_number(value >> 7) if value > 127 else b"")


def get_number(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


@dataclass
class Parts:
    """What an index says, not compressed.

    Attributes:
        head: all but the sizes of the blocks.
    """

    envelope: bytes
    head: bytes
    blocks: list[bytes]

    @classmethod
    def of(cls, index: bytes, items: int) -> Parts:
        """Of an index of so many packets, or frames if these are more."""
        end = 48 + int.from_bytes(index[24:28], "little")
        _, at = get_number(index, 48)
        head = zlib.decompress(index[at:end])
        count = -(-items // BLOCK)
        # their sizes stand last, each a number, and are together what is left
        place = len(head)
        sizes: list[int] = []
        while len(sizes) != count or sum(sizes) != len(index) - end:
            place -= 1
            sizes, at = [], place
            while at < len(head) and len(sizes) <= count:
                size, at = get_number(head, at)
                sizes.append(size)
        blocks, at = [], place
        for _ in range(count):
            size, at = get_number(head, at)
            _, start = get_number(index, end)
            blocks.append(zlib.decompress(index[start : end + size], -15))
            end += size
        assert end == len(index)
        return cls(index[:48], head[:place], blocks)

    def index(self) -> bytes:
        """Compressed, put together and signed."""
        body, sizes = b"", b""
        for block in self.blocks:
            deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
            data = put_number(len(block)) + deflate.compress(block) + deflate.flush()
            body += data
            sizes += put_number(len(data))
        head = self.head + sizes
        packed = put_number(len(head)) + zlib.compress(head, 9)
        size = 48 + len(packed) + len(body)
        envelope = self.envelope[:16] + struct.pack("<QII", size, len(packed), 0) + bytes(16)
        return sign(envelope + packed + body)

    def _with(self, number: int, block: bytes, at: int) -> tuple[int, bytes]:
        """With another block, changed at a place: about which packet that is of, and the index."""
        blocks = [*self.blocks[:number], block, *self.blocks[number + 1 :]]
        packet = BLOCK * number + BLOCK * at // len(block)
        return packet, Parts(self.envelope, self.head, blocks).index()

    def unmarked(self) -> Iterator[tuple[int, bytes]]:
        """Small bytes of the blocks as zero, such as those that say which fields of a picture are
        references; and about which packet each is of."""
        for number, block in enumerate(self.blocks):
            for at, value in enumerate(block):
                if 0 < value < 8:
                    yield self._with(number, block[:at] + b"\0" + block[at + 1 :], at)

    def grayed(self) -> Iterator[tuple[int, bytes]]:
        """Two entries of a snapshot, both new in it, called mid-gray pictures, as they follow a
        byte that has its highest bit set; and about which packet each is of."""
        for number, block in enumerate(self.blocks):
            # an even number is so many pairs of packets back
            places = [
                at + 1
                for at in range(len(block) - 1)
                if 128 <= block[at] < 192 and block[at + 1] in range(2, 32, 2)
            ]
            for first, second in pairwise(places):
                if second - first < 16:
                    data = bytearray(block)
                    data[first] = data[second] = 5
                    yield self._with(number, bytes(data), first)

    def variants(self, seed: int, step: int = 1) -> Iterator[bytes]:
        """Each byte of the head and of the blocks in its turn (or every step-th) with another
        value: a bit turned, or a number of the shortest or longest kind."""
        rng = random.Random(seed)
        parts = [self.head, *self.blocks]
        for number, part in enumerate(parts):
            for at in range(0, len(part), step):
                data = bytearray(part)
                kind = rng.randrange(4)
                if kind < 2:
                    data[at] ^= 1 << rng.randrange(8)
                elif kind == 2:
                    data[at] = rng.choice((0, 1, 127, 255))
                else:
                    data[at : at + 1] = b"\xff" * rng.choice((4, 9)) + b"\x01"
                others = [*parts[:number], bytes(data), *parts[number + 1 :]]
                yield Parts(self.envelope, others[0], others[1:]).index()
