"""The analytic model of amplification: the figures it has to give, and real files."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path

import media
import pytest
from encoder_program import needs_program

from sparseframes import VideoDecoder, check_ddra, transcode
from sparseframes.analysis import (
    amplification,
    ddra_pictures,
    sequential_pictures,
    sparse_pictures,
)
from sparseframes.errors import ArgumentError


def two_digits(value: Fraction) -> str:
    exact = Decimal(value.numerator) / Decimal(value.denominator)
    return str(exact.quantize(Decimal("0.01"), ROUND_HALF_UP))


@pytest.mark.parametrize(
    ("method", "count", "stride", "period", "stated"),
    [
        ("sequential", 10, 30, 32, "16.40"),
        ("sparse", 10, 30, 32, "5.04"),
        ("ddra", 10, 30, 32, "2.01"),
        ("ddra", 1, 4, 32, "2.94"),
        ("ddra", 30, 4, 32, "1.16"),
        ("ddra", 10, 4, 4, "1.83"),
        ("ddra", 10, 4, 32, "1.28"),
        ("sparse", 10, 4, 4, "2.33"),
        ("sparse", 10, 4, 32, "2.63"),
    ],
)
def test_stated_figures(method: str, count: int, stride: int, period: int, stated: str) -> None:
    assert two_digits(amplification(method, count, stride, period)) == stated  # type: ignore[arg-type]


def test_ddra_falls_with_the_number_of_frames_and_the_period() -> None:
    by_count = [amplification("ddra", count, 4, 32) for count in range(1, 31)]
    assert by_count == sorted(by_count, reverse=True)
    by_period = [amplification("ddra", 10, 4, period) for period in (4, 8, 16, 32)]
    assert by_period == sorted(by_period, reverse=True)
    assert amplification("ddra", 1, 1, 32) == 3 - Fraction(2, 32)


def test_the_closures_of_a_small_interval() -> None:
    # 0 and 8 are anchors, decoded first; then 4, 2, 1, 3, 6, 5, 7
    assert sparse_pictures([5], 8) == {0, 8, 4, 6, 5}
    assert sequential_pictures([5], 8) == {0, 8, 4, 2, 1, 3, 6, 5}
    assert sequential_pictures([1], 8) == {0, 8, 4, 2, 1}
    assert ddra_pictures([5], 8) == {0, 8, 5}
    for pictures in (sparse_pictures, sequential_pictures, ddra_pictures):
        assert pictures([8], 8) == {8}
        assert pictures([], 8) == set()
    # a period that is no power of two
    assert sparse_pictures([1, 4], 5) == {0, 5, 2, 1, 3, 4}


def test_sparse_is_between_ddra_and_sequential() -> None:
    for period in (1, 2, 3, 8, 17, 32):
        for stride in (1, 4, 30):
            ddra, sparse, sequential = (
                amplification(method, 10, stride, period)  # type: ignore[arg-type]
                for method in ("ddra", "sparse", "sequential")
            )
            assert 1 <= ddra <= sparse <= sequential


def test_the_last_frame_is_an_anchor() -> None:
    assert ddra_pictures([9], 8, frames=11) == {8, 9, 10}
    assert ddra_pictures([10], 8, frames=11) == {10}
    assert ddra_pictures([9], 8) == {8, 9, 16}


@pytest.mark.parametrize(
    "arguments",
    [("ddra", 0, 1, 8), ("ddra", 1, 0, 8), ("sparse", 1, 1, 0), ("other", 1, 1, 8)],
)
def test_bad_arguments(arguments: tuple[str, int, int, int]) -> None:
    with pytest.raises(ArgumentError):
        amplification(*arguments)  # type: ignore[arg-type]


def test_targets_outside() -> None:
    with pytest.raises(ArgumentError, match="no frame 11"):
        ddra_pictures([11], 8, frames=11)
    with pytest.raises(ArgumentError, match="period"):
        ddra_pictures([1], 0)


def _compare(path: Path, period: int, frames: int, limit: int) -> None:
    """Every frame alone, and requests at several strides, below the limit."""
    with VideoDecoder(path) as decoder:
        assert len(decoder) == frames
        requests = [[k] for k in range(limit)]
        for stride in (1, 3, 4, period - 1, period, period + 1):
            for start in range(period):
                request = [k for k in range(start, start + 6 * stride, stride) if k < limit]
                if request:
                    requests.append(request)
        for request in requests:
            expected = ddra_pictures(request, period, frames)
            assert len(decoder.plan(request).reconstruct) == len(expected), request


def test_a_stream_of_x264_with_the_structure(tmp_path: Path) -> None:
    # up to a period of 17 the stock encoder makes it, but for the last interval
    path, period, frames = tmp_path / "anchors.mp4", 8, 60
    params = "keyint=8:min-keyint=8:scenecut=0:open-gop=1:bframes=7:b-adapt=0:b-pyramid=none:ref=1"
    media.encode(path, numbers=range(frames), size=(64, 48), **{"x264-params": params})
    _compare(path, period, frames, limit=frames - frames % period)


@needs_program
@pytest.mark.parametrize(("codec", "period", "frames"), [("h264", 32, 101), ("hevc", 8, 50)])
def test_ddra_files(codec: str, period: int, frames: int, tmp_path: Path) -> None:
    source, path = tmp_path / "source.mp4", tmp_path / "ddra.mp4"
    media.encode(source, numbers=range(frames), size=(64, 48))
    transcode(source, path, codec=codec, period=period, preset="ultrafast", threads=1)
    assert check_ddra(path).ok
    _compare(path, period, frames, limit=frames)
    with VideoDecoder(path) as decoder:
        costs = [len(decoder.plan([k]).reconstruct) for k in range(period, 2 * period)]
    assert Fraction(sum(costs), period) == amplification("ddra", 1, 1, period)
