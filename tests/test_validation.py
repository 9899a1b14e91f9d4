"""The validation itself: that it passes what is right and catches what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import av
import media
import numpy as np
import pytest

import sparseframes
from sparseframes import VideoDecoder
from sparseframes._binding import Reader
from sparseframes.validation import first_difference, reference, validate

Clip = Callable[[str], str]


@pytest.mark.parametrize(
    "name",
    ["pyramid.mp4", "hevc_opengop.mp4", "editlist.mp4", "h264_10bit.mp4", "resize.ts", "mpeg4.avi"],
)
def test_clean_files(clip: Clip, name: str) -> None:
    shares: list[float] = []
    result = validate(clip(name), requests=27, progress=shares.append)
    assert result.status == "exact", result.mismatches
    assert result.requests == 27
    assert result.checked > 100
    assert result.damaged_from is None
    assert shares[-1] == 1
    assert shares == sorted(shares)
    assert result.reconstructed == result.planned
    assert result.planned > 0 or name == "mpeg4.avi"


def test_damaged_file(clip: Clip) -> None:
    result = validate(clip("bitflip.mp4"), requests=40)
    assert result.status == "exact", result.mismatches
    assert result.damaged_from == 50
    assert result.raised > 0
    assert result.notes


@pytest.mark.parametrize("name", ["text.mp4", "empty.mp4", "sound.mp4"])
def test_unreadable(clip: Clip, name: str) -> None:
    result = validate(clip(name))
    assert result.status == "unreadable"
    assert name in result.reason


def test_refused(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise sparseframes.UnsupportedError("not this one")

    monkeypatch.setattr(VideoDecoder, "__init__", refuse)
    result = validate(clip("pyramid.mp4"))
    assert (result.status, result.reason) == ("refused", "not this one")


def test_wrong_pixel_is_caught(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Reader.get_frames

    def spoil(
        self: Reader, indices: Any, pixel_format: str, batch: Any, width: int, height: int
    ) -> None:
        honest(self, indices, pixel_format, batch, width, height)
        for k, index in enumerate(indices):
            if index == 40 and pixel_format == "native":
                # luma has 96 rows of 128: row 2, column 5 of the first chroma plane
                batch[k, 128 * 96 + 2 * 64 + 5] ^= 1

    monkeypatch.setattr(Reader, "get_frames", spoil)
    result = validate(clip("pyramid.mp4"), requests=100, seed=3)
    assert result.status == "mismatch"
    assert {mismatch.kind for mismatch in result.mismatches} == {"native"}
    mismatch = result.mismatches[0]
    assert (mismatch.index, mismatch.plane, mismatch.x, mismatch.y) == (40, 1, 5, 2)
    assert mismatch.expected is not None
    assert mismatch.got == mismatch.expected ^ 1
    assert 40 in mismatch.request
    assert mismatch.closure
    assert "--seed 3" in mismatch.command
    assert "pyramid.mp4" in mismatch.command


def test_wrong_frame_is_caught(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Reader.get_frames

    def shift(self: Reader, indices: Any, pixel_format: str, *more: Any) -> None:
        wrong = np.where(indices == 33, 34, indices) if pixel_format == "rgb24" else indices
        honest(self, wrong, pixel_format, *more)

    monkeypatch.setattr(Reader, "get_frames", shift)
    result = validate(clip("onekey.mp4"), requests=100)
    assert {(mismatch.kind, mismatch.index) for mismatch in result.mismatches} == {("rgb", 33)}


def test_one_picture_too_many_is_caught(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Reader.stats

    def more(self: Reader) -> dict[str, Any]:
        values = honest(self)
        values["pictures_reconstructed"] += values["requests"]
        return values

    monkeypatch.setattr(Reader, "stats", more)
    result = validate(clip("pyramid.mp4"), requests=10)
    assert {mismatch.kind for mismatch in result.mismatches} == {"cost"}


def test_wrong_count_is_caught(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reader, "frame_count", lambda self: 89)
    result = validate(clip("pyramid.mp4"), requests=2)
    assert result.mismatches[0].kind == "count"


def test_raising_without_damage_is_caught(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise sparseframes.DecodeError("I don't want to", frame=1)

    monkeypatch.setattr(Reader, "get_frames", refuse)
    result = validate(clip("pyramid.mp4"), requests=3)
    assert {mismatch.kind for mismatch in result.mismatches} == {"raised"}


def test_first_difference() -> None:
    zeros = [np.zeros((3, 4), np.uint8)]
    other = [zeros[0].copy()]
    other[0][1, 2] = 9
    found = first_difference(zeros, other)
    assert (found["x"], found["y"], found["expected"], found["got"]) == (2, 1, 0, 9)
    assert "shapes" in first_difference(zeros, [np.zeros((3, 5), np.uint8)])["detail"]
    assert "no such frame" in first_difference(None, zeros)["detail"]


def test_digest_tells_shapes_apart() -> None:
    zeros = np.zeros(12, np.uint8)
    pictures = [zeros.reshape(3, 4), zeros.reshape(4, 3), zeros.view("<u2").reshape(2, 3)]
    assert len({reference.digest([picture]) for picture in pictures}) == 3


@pytest.mark.parametrize(
    "pix_fmt", ["yuv420p", "yuv444p", "gray", "gray12le", "yuv420p10le", "nv12", "rgb24", "bgra"]
)
def test_planes_of_pyav(pix_fmt: str) -> None:
    # odd width: rows are padded
    image = media.picture(9, 62, 50)
    frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format=pix_fmt)
    planes = reference.pyav_planes(frame)
    packed = frame.to_ndarray()
    values = np.concatenate([plane.ravel() for plane in planes])
    np.testing.assert_array_equal(np.sort(values), np.sort(packed.ravel()))
    assert planes[0].shape[:2] == (50, 62)
