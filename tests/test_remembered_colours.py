"""Matrix and range that headers leave out are those of earlier ones, wherever decoding begins."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import media
import numpy as np
import pytest

from sparseframes import VideoDecoder
from sparseframes.validation.reference import own_frames, pyav_frames

SIZE = (64, 32)
GROUP = 4
BT709, SMPTE240M = 1, 7


def join(parts: list[bytes], path: Path) -> str:
    path.write_bytes(b"".join(parts))
    return str(path)


def part(folder: Path, number: int, suffix: str, encoder: str, **options: Any) -> bytes:
    """A group of pictures as an elementary stream."""
    path = folder / f"part{number}.{suffix}"
    numbers = range(GROUP * number, GROUP * (number + 1))
    media.encode(path, encoder, numbers=numbers, size=SIZE, g=str(GROUP), **options)
    return path.read_bytes()


def mpeg2(folder: Path) -> str:
    """Only the first two groups tell their matrix."""
    parts = [
        part(folder, k, "m2v", "mpeg2video", bf="0", colorspace=matrix, seq_disp_ext="1")
        for k, matrix in enumerate(("smpte240m", "bt709", "bt709", "bt709"))
    ]
    # without sequence_display_extension()
    extension = re.compile(rb"\x00\x00\x01\xb5[\x20-\x2f].*?(?=\x00\x00\x01)", re.DOTALL)
    return join([*parts[:2], *(extension.sub(b"", data) for data in parts[2:])], folder / "a.m2v")


def h264(folder: Path) -> str:
    """Only the first groups have VUI that tells of colours; of those, probing sees the first."""
    matrices = ["smpte240m"] * 3 + ["bt709"]
    options = [f"colormatrix={matrix}:fullrange=on" for matrix in matrices] + ["ref=1"] * 3
    parts = [
        part(folder, k, "264", "libx264", **{"x264-params": f"bframes=1:{option}"})
        for k, option in enumerate(options)
    ]
    return join(parts, folder / "a.264")


def mjpeg(folder: Path) -> str:
    """One picture of limited range, which FFmpeg's decoder never forgets."""
    limited = {"pix_fmt": "yuv420p", "color_range": "tv", "strict": "-1"}
    parts = [
        part(folder, k, "mjpeg", "mjpeg", **(limited if k == 1 else {"pix_fmt": "yuvj420p"}))
        for k in range(3)
    ]
    assert [b"CS=ITU601" in data for data in parts] == [False, True, False]
    return join(parts, folder / "a.mjpeg")


@pytest.mark.parametrize("index", ["auto", "decoded", "lazy"])
@pytest.mark.parametrize("make", [mpeg2, h264, mjpeg])
def test_each_frame_alone(tmp_path: Path, make: Any, index: str) -> None:
    path = make(tmp_path)
    with VideoDecoder(path) as decoder, decoder._use() as reader:
        expected = [planes[0] for planes, _ in own_frames(reader, "rgb24", decoder._orientation)]
    told = [frame.colorspace for frame in pyav_frames(path)]
    count = len(told)
    if make is not mjpeg:
        first = told.index(BT709)
        assert 0 < first < count - 2 * GROUP
        assert told == [SMPTE240M] * first + [BT709] * (count - first)
    assert len(expected) == count
    for k in reversed(range(count)):
        with VideoDecoder(path, index=index) as decoder:
            np.testing.assert_array_equal(decoder[k], expected[k])
