"""Damaged inputs, and inputs that lie: what is returned is what the linear decode gives."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import media
import pytest
from synthetic.hevc import Pps
from synthetic.hevc_cases import Sequence

import sparseframes
from sparseframes import VideoDecoder
from sparseframes.validation.reference import Reference, digest, own_reference

Clip = Callable[[str], str]


def linear_decode(data: bytes) -> Reference:
    """The library's own linear decode."""
    with VideoDecoder(data, pixel_format="native") as decoder, decoder._use() as reader:
        return own_reference(reader, "native", decoder._orientation)


def frame(decoder: VideoDecoder, index: int) -> bytes | None:
    """The digest of a frame, None where it can't be had."""
    try:
        return digest(list(decoder[index]))
    except (sparseframes.DecodeError, sparseframes.UnsupportedError):
        return None


def units(data: bytes) -> list[bytes]:
    """The NAL units of an elementary stream, with their start codes."""
    starts = [match.start() for match in re.finditer(b"\0\0\1", data)]
    return [data[a:b] for a, b in zip(starts, [*starts[1:], len(data)], strict=True)]


def flip(data: bytes, at: int) -> bytes:
    """One byte inverted."""
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def small(path: Path, encoder: str = "libx264", **options: str) -> bytes:
    """A short stream of small pictures."""
    media.encode(path, encoder, numbers=range(24), size=(64, 48), **options)
    return path.read_bytes()


def test_prediction_from_the_picture_itself() -> None:
    # FFmpeg's decoder lets a picture refer to itself, as screen content coding does, and doesn't
    # see to it that what is referred to has been decoded: it showed what the buffer held before.
    stream = Sequence(pps=Pps(curr_pic_ref=True))
    stream.intra()
    stream.inter("P", 4, [0])
    stream.inter("P", 8, [4])
    with VideoDecoder(stream.coder.bytes(), pixel_format="native") as decoder:
        assert frame(decoder, 0) == linear_decode(stream.coder.bytes()).digests[0]
        assert len(decoder) == 3
        for index in (1, 2):
            with pytest.raises(sparseframes.DecodeError, match=f"frame {index}"):
                decoder[index]


@pytest.mark.parametrize("coder", ["cabac=0", "cabac=1"])
def test_a_failed_request_leaves_no_trace(tmp_path: Path, coder: str) -> None:
    # An entropy error left coefficients in the decoder, and the next picture added them to its own.
    data = small(tmp_path / "a.264", **{"x264-params": f"{coder}:keyint=24:bframes=0:qp=10"})
    data = data[: -len(units(data)[-1]) // 2]
    expected = linear_decode(data).digests
    with VideoDecoder(data, pixel_format="native") as decoder:
        for index in (0, len(expected) - 2, 5):
            assert frame(decoder, len(expected) - 1) is None
            assert frame(decoder, index) == expected[index]


def variants(data: bytes, seed: int, count: int) -> list[bytes]:
    """The data with bytes inverted, cut out, doubled or cut off at random places."""
    chance, made = random.Random(seed), []
    for number in range(count):
        at, size = chance.randrange(len(data)), chance.randrange(1, 400)
        made.append(
            [
                flip(data, at),
                flip(flip(data, at), (at + size) % len(data)),
                data[:at] + data[at + size :],
                data[:at] + data[at - min(at, size) :],
                data[: at + 1],
            ][number % 5]
        )
    return made


@pytest.mark.parametrize(
    ("suffix", "encoder", "options"),
    [
        ("264", "libx264", {"x264-params": "cabac=0:keyint=8:bframes=2:slices=2"}),
        ("mp4", "libx264", {"x264-params": "keyint=8:bframes=3:open-gop=1"}),
        ("ts", "libx264", {"x264-params": "keyint=8:bframes=1:interlaced=1"}),
        ("hevc", "libx265", {"x265-params": "keyint=8:bframes=3:repeat-headers=1"}),
        ("mp4", "libx265", {"x265-params": "keyint=8:bframes=3"}),
    ],
)
def test_damage_anywhere(tmp_path: Path, suffix: str, encoder: str, options: Any) -> None:
    # After an entropy error in CAVLC, FFmpeg's linear decode may add coefficients that are left
    # over to later pictures, see docs/how-it-works.md, and x264 does not always write the same
    # stream. Such a picture has to come clean, whatever else the decoder has been asked for.
    leaves_coefficients = "cabac=0" in str(options)
    checked = 0
    for data in variants(small(tmp_path / f"a.{suffix}", encoder, **options), 1, 40):
        try:
            reference = linear_decode(data)
            expected = reference.digests
            decoder = VideoDecoder(data, pixel_format="native")
        except sparseframes.SparseError:
            continue
        with decoder:
            assert len(decoder) == len(expected)
            order = list(range(len(expected)))
            random.Random(2).shuffle(order)
            for index in order:
                got = frame(decoder, index)
                right = [None, expected[index]]
                if leaves_coefficients and reference.damaged_from in range(index + 1):
                    sparseframes.clear_cache()
                    with VideoDecoder(data, pixel_format="native", index="whole") as alone:
                        right.append(frame(alone, index))
                assert got in right
                checked += got is not None
    assert checked > 100


@pytest.mark.parametrize("index", ["lazy", "whole"])
def test_times_that_follow_the_decode_order(tmp_path: Path, index: str) -> None:
    # As `ffmpeg -fflags +genpts -i a.hevc -c copy a.mp4` writes them; the first packet comes
    # before the edit list, so its picture, which is the first one shown, isn't shown.
    small(tmp_path / "a.mp4", "libx265", **{"x265-params": "keyint=24:bframes=3:b-adapt=0"})

    def edit(number: int, packet: Any) -> Any:
        packet.pts = packet.dts = (number - 1) * packet.duration
        return packet

    media.remux(tmp_path / "a.mp4", tmp_path / "b.mp4", edit)
    data = (tmp_path / "b.mp4").read_bytes()
    expected = linear_decode(data).digests
    for number in range(len(expected)):
        with VideoDecoder(data, pixel_format="native", index=index) as decoder:
            assert frame(decoder, number) == expected[number]
