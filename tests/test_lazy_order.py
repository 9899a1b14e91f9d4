"""Streams whose decoder drops frames or puts them out early, with times that don't tell.

A lazy index takes the sample table's word for which frame is which. Where a request has a header
pass go over what proves it wrong, the decoder's order holds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import media
import pytest
from synthetic.hevc import Sps
from synthetic.hevc_cases import Sequence

from sparseframes import VideoDecoder
from sparseframes.validation.reference import digest, own_reference


class Timed(Sequence):
    """A sequence that notes the time of each picture: that of its order of display."""

    def __init__(self, sps: Sps) -> None:
        super().__init__(sps)
        self.times: list[int] = []
        self.start = 0
        write = self.coder.picture

        def picture(one: Any) -> None:
            if one.kind == "I" and self.times:
                self.start = max(self.times) + 1
            self.times.append(self.start + one.poc)
            write(one)

        self.coder.picture = picture  # type: ignore[method-assign]


def group(made: Timed, *, discard: bool = False) -> None:
    """An IDR picture and two mini-GOPs of four, the last of which waits for output at the end."""
    made.intra(discard=discard)
    for last in (4, 8):
        made.inter("P", last, [last - 4], drop=[last - 6] if last > 4 else [])
        made.inter("B", last - 2, [last - 4, last])
        made.inter("B", last - 3, [last - 4, last - 2], keep=False)
        made.inter("B", last - 1, [last - 2, last], keep=False)


def dropped() -> Timed:
    # an IDR picture has what waits for output thrown away
    made = Timed(Sps(reorder=3))
    for number in range(4):
        group(made, discard=number == 2)
    return made


def early() -> Timed:
    # parameter sets that allow no reordering, and B pictures
    made = Timed(Sps(reorder=0))
    for _ in range(3):
        group(made)
    return made


@pytest.mark.parametrize(
    ("make", "forwards"),
    # a request for what comes after dropped pictures touches nothing that tells of them
    [(dropped, True), (early, True), (early, False)],
)
def test_decoder_order_holds(make: Callable[[], Timed], forwards: bool, tmp_path: Path) -> None:
    made = make()
    source, path = tmp_path / "a.hevc", tmp_path / "a.mp4"
    source.write_bytes(made.coder.bytes())

    def stamp(number: int, packet: Any) -> Any:
        packet.pts, packet.dts = made.times[number], number - 8
        packet.time_base = media.Fraction(1, media.FPS)
        return packet

    media.remux(source, path, stamp)
    with VideoDecoder(path, pixel_format="native") as decoder, decoder._use() as reader:
        expected = own_reference(reader, "native", decoder._orientation).digests
    count = len(expected)
    assert (count < len(made.times)) == (make is dropped)
    with VideoDecoder(path, pixel_format="native", index="lazy") as decoder:
        assert len(decoder) == len(made.times)  # the sample table's word
        for number in range(count) if forwards else range(count - 1, -1, -1):
            assert digest(list(decoder[number])) == expected[number], number
        assert len(decoder) == count
