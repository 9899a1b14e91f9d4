"""Any sequence of calls on one decoder gives what a fresh one would."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from conftest import Linear
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparseframes import VideoDecoder
from sparseframes._orientation import Orientation
from sparseframes.validation import PATTERNS, Structure, make_requests
from sparseframes.validation.requests import AFTER_FRAMES, walk_after

Clip = Callable[[str], str]

NAMES = [
    "pyramid.mp4",
    "onekey.mp4",
    "opengop.mp4",
    "hevc_opengop.mp4",
    "hevc_radl.mp4",
    "mbaff.mp4",
]

index = st.integers(0, 89)
call = st.one_of(
    st.tuples(st.just("get_frames_at"), st.lists(index, max_size=6)),
    st.tuples(st.just("getitem"), st.integers(-90, 89)),
    st.tuples(st.just("slice"), st.builds(slice, index, index, st.sampled_from([1, 2, 7, -1, -5]))),
    st.tuples(st.just("played_at"), st.lists(st.floats(0, 2.9), max_size=3)),
    st.tuples(st.just("plan"), st.lists(index, max_size=4)),
    st.tuples(st.just("reset"), st.none()),
)

relaxed = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("name", NAMES)
def test_history_does_not_matter(name: str, clip: Clip, linear: Linear) -> None:
    expected = linear(name)

    def same(data: Any, indices: list[int]) -> None:
        assert len(data[0]) == len(indices)
        for k, position in enumerate(indices):
            for plane, truth in zip(data, expected[position], strict=True):
                np.testing.assert_array_equal(plane[k], truth)

    @relaxed
    @given(calls=st.lists(call, max_size=8), threads=st.sampled_from([1, 1, 1, 3]))
    def run(calls: list[tuple[str, Any]], threads: int) -> None:
        with VideoDecoder(clip(name), pixel_format="native", threads=threads) as decoder:
            for method, argument in calls:
                if method == "get_frames_at":
                    same(decoder.get_frames_at(argument).data, argument)
                elif method == "getitem":
                    same([plane[None] for plane in decoder[argument]], [argument % 90])
                elif method == "slice":
                    same(decoder[argument], list(range(90))[argument])
                elif method == "played_at":
                    batch = decoder.get_frames_played_at(argument)
                    same(batch.data, batch.indices.tolist())
                elif method == "plan":
                    plan = decoder.plan(argument)
                    assert plan.targets.tolist() == sorted(set(argument))
                else:
                    decoder.reset_stats()

    run()


@given(
    count=st.integers(0, 60),
    number=st.integers(0, 40),
    size=st.integers(1, 80),
    seed=st.integers(),
    exact=st.booleans(),
    data=st.data(),
)
@settings(deadline=None)
def test_requests_stay_inside(
    count: int, number: int, size: int, seed: int, exact: bool, data: st.DataObject
) -> None:
    keys = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    pictures = data.draw(st.permutations(range(count)))
    stream = Structure.of(pictures, keys)
    series = make_requests(stream, number, size, seed, exact_size=exact)
    assert len(series) == (number if count else 0)
    for k, request in enumerate(series):
        assert request.pattern == PATTERNS[k % len(PATTERNS)]
        assert request.indices
        assert len(request.indices) <= size + 1
        assert all(0 <= one < count for one in request.indices)
        if request.pattern == "first":
            assert request.indices[0] == 0
        if request.pattern == "last":
            assert request.indices[-1] == count - 1
        if request.pattern == "access" and stream.access:
            assert keys[request.indices[0]]
        if request.pattern == "leading" and stream.leading:
            assert set(request.indices) <= set(stream.leading)
        if exact and request.pattern not in ("single", "after"):
            assert len(request.indices) == min(size, count)
    assert series == make_requests(stream, number, size, seed, exact_size=exact)
    # a shorter series is the beginning of a longer one: that is how a mismatch is shown again
    assert series[: number // 2] == make_requests(stream, number // 2, size, seed, exact_size=exact)


@given(count=st.integers(2, 30), seed=st.integers())
def test_walk_goes_from_each_frame_to_each_other(count: int, seed: int) -> None:
    nodes = min(count, AFTER_FRAMES)
    walk = list(islice(walk_after(count, str(seed)), nodes * (nodes - 1) + 1))
    pairs = set(pairwise(walk))
    assert len(pairs) == nodes * (nodes - 1)
    assert all(a != b for a, b in pairs)


def test_structure_finds_leading_pictures() -> None:
    # decoded I0 P4 B1 B2, then I8 and what is shown before it: 5 and 6, and P9 after it
    pictures = [0, 2, 3, 1, 5, 6, 4, 7]
    keys = [True, False, False, False, False, False, True, False]
    stream = Structure.of(pictures, keys)
    assert (stream.access, stream.leading) == ((0, 6), (4, 5))


@given(
    clockwise=st.sampled_from([0, 90, 180, 270]),
    flip=st.booleans(),
    width=st.integers(1, 5),
    height=st.integers(1, 5),
)
def test_orientation_moves_every_pixel_once(
    clockwise: int, flip: bool, width: int, height: int
) -> None:
    orientation = Orientation(clockwise, flip)
    frames = np.arange(2 * height * width).reshape(2, height, width, 1)
    seen = orientation.view(frames)
    assert seen.shape[1:3] == orientation.size(width, height)[::-1]
    assert sorted(seen.ravel()) == list(range(frames.size))
    assert orientation.identity == bool(
        (seen.shape == frames.shape) and (seen == frames).all()
    ) or (width == 1 or height == 1)
