"""Frames by time."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import av
import media
import numpy as np
import pytest

import sparseframes
from sparseframes import VideoDecoder
from sparseframes._indices import Timeline

Clip = Callable[[str], str]

TIMED = [
    "pyramid.mp4",
    "onekey.mp4",
    "noedit.mp4",
    "vfr.mp4",
    "editlist.mp4",
    "pyramid.ts",
    "pyramid.mkv",
    "fragmented.mp4",
    "hevc_opengop.mp4",
    "mbaff.mp4",
]


def pyav_seconds(path: str) -> list[float]:
    with av.open(path) as container:
        stream = container.streams.video[0]
        return [float(frame.pts * frame.time_base) for frame in container.decode(stream)]


@pytest.mark.parametrize("name", TIMED)
def test_timestamps_are_those_of_the_linear_decode(clip: Clip, name: str) -> None:
    with VideoDecoder(clip(name)) as decoder:
        expected = pyav_seconds(clip(name))
        batch = decoder.get_all_frames()
        np.testing.assert_allclose(batch.pts_seconds, expected, rtol=0, atol=1e-9)
        np.testing.assert_allclose(
            batch.duration_seconds[:-1], np.diff(batch.pts_seconds), rtol=0, atol=1e-9
        )
        assert decoder.get_frame_at(7).pts_seconds == batch.pts_seconds[7]


@pytest.mark.parametrize("name", TIMED)
def test_frame_played_at(clip: Clip, name: str) -> None:
    with VideoDecoder(clip(name)) as decoder:
        batch = decoder.get_all_frames()
        pts, duration = batch.pts_seconds, batch.duration_seconds
        start = decoder.get_frames_played_at(pts)
        assert start.indices.tolist() == list(range(len(batch)))
        late = decoder.get_frames_played_at((pts + 0.99 * duration).tolist())
        assert late.indices.tolist() == list(range(len(batch)))
        assert decoder.get_frame_played_at(pts[5]).index == 5
        metadata = decoder.metadata
        assert metadata.begin_stream_seconds == pts[0]
        for seconds in (pts[0] - 1e-6, metadata.end_stream_seconds, -1, 1e9, math.nan, math.inf):
            with pytest.raises(sparseframes.IndexError, match=name):
                decoder.get_frame_played_at(seconds)


def test_order_and_repeats_are_kept(pyramid: VideoDecoder) -> None:
    out = np.empty((3, 96, 128, 3), np.uint8)
    batch = pyramid.get_frames_played_at([2.5, 0.1, 2.5], out=out)
    assert batch.indices.tolist() == [75, 3, 75]
    assert [media.number_of(pixels) for pixels in out] == [75, 3, 75]
    assert pyramid.get_frames_played_at([Fraction(1, 2), np.float32(1)]).indices.tolist() == [
        15,
        30,
    ]


@pytest.mark.parametrize("seconds", ["1", None, True, [1.0]])
def test_what_is_no_time(pyramid: VideoDecoder, seconds: object) -> None:
    with pytest.raises(TypeError):
        pyramid.get_frame_played_at(seconds)


def test_frames_played_in_range(pyramid: VideoDecoder) -> None:
    pts = pyramid.get_all_frames().pts_seconds
    end = pyramid.metadata.end_stream_seconds

    def ask(start: float, stop: float) -> list[int]:
        return pyramid.get_frames_played_in_range(start, stop).indices.tolist()

    assert ask(pts[10], pts[13]) == [10, 11, 12]
    # the frame that is still shown at the start belongs to it
    assert ask(pts[10] + 0.01, pts[13] + 0.01) == [10, 11, 12, 13]
    assert ask(pts[10], pts[10]) == []
    assert ask(pts[0], end) == list(range(90))
    assert ask(pts[89], end) == [89]
    for start, stop in ((1.0, 0.5), (pts[0] - 1, 1.0), (end, end), (0.0, end + 1)):
        with pytest.raises(ValueError, match="seconds"):
            ask(start, stop)


def test_variable_rate_goes_by_the_table(clip: Clip) -> None:
    with VideoDecoder(clip("vfr.mp4")) as decoder:
        for index, pts in enumerate(media.VFR_PTS[:-1]):
            middle = (pts + media.VFR_PTS[index + 1]) / 2 / media.FPS
            assert decoder.get_frame_played_at(middle).index == index


def test_timeline() -> None:
    line = Timeline(np.array([0.0, 1.0, 1.0, 3.0]), 3.5)
    assert [line.find(t) for t in (0, 0.5, 1, 2.9, 3, 3.4)] == [0, 0, 2, 2, 3, 3]
    assert line.find(3.5) is None
    assert line.find(-0.1) is None
    assert line.between(0.5, 3.0).tolist() == [0, 1, 2]
    assert line.between(1.0, 3.0).tolist() == [2]
    # a last frame of unknown duration can be had at its own time
    assert Timeline(np.array([0.0, 1.0]), 1.0).find(1.0) == 1
    # without order
    line = Timeline(np.array([0.0, 2.0, 1.0, 3.0]), 4.0)
    assert [line.find(t) for t in (0.5, 1.5, 2.5, 3.5)] == [0, 0, 2, 3]
    line = Timeline(np.array([0.0, np.nan, 2.0]), 3.0)
    assert line.find(2.5) == 2
    assert line.find(5.0) is None


def test_no_timestamps() -> None:
    line = Timeline(np.array([np.nan, np.nan]), np.nan)
    assert line.find(0.0) is None
