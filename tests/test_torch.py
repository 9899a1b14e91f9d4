"""Clips as torch tensors: the samplers and the data set. `make test-torch` has what it takes."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import media
import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed; see make test-torch")

import torch
from torch.utils.data import DataLoader

from sparseframes import UnsupportedError, VideoDecoder
from sparseframes.errors import ArgumentError, SourceError
from sparseframes.torch import (
    ClipDataset,
    as_tensors,
    clips_at_random_indices,
    clips_at_random_timestamps,
    clips_at_regular_indices,
    clips_at_regular_timestamps,
)

Clip = Callable[[str], str]
Pair = tuple[VideoDecoder, Any, bool]
EXAMPLE = Path(__file__).parent.parent / "docs/examples/train.py"


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    state = torch.get_rng_state()
    torch.manual_seed(7)
    yield
    torch.set_rng_state(state)


def numbers(frames: Any) -> Any:
    """The numbers in pictures [..., C, H, W] as nested lists."""
    if frames.ndim > 3:
        return [numbers(frame) for frame in frames]
    return media.number_of(frames.permute(1, 2, 0).numpy())


# -- samplers, by what they are to return -------------------------------------------------------


def test_regular_indices(clip: Clip) -> None:
    with VideoDecoder(clip("pyramid.mp4"), dimension_order="NCHW") as decoder:
        batch = clips_at_regular_indices(
            decoder, num_clips=4, num_frames_per_clip=3, num_indices_between_frames=2
        )
        assert batch.data.shape == (4, 3, 3, 96, 128)
        assert batch.data.dtype == torch.uint8
        assert numbers(batch.data) == [[k, k + 2, k + 4] for k in (0, 28, 56, 85)]
        assert batch.pts_seconds.dtype == torch.float64
        assert torch.allclose(batch.pts_seconds[1], torch.tensor([28, 30, 32]).double() / 30)
        assert torch.allclose(batch.duration_seconds, torch.full((4, 3), 1 / 30).double())
        assert len(batch) == 4
        assert [numbers(one.data) for one in batch] == numbers(batch.data)


def test_more_clips_than_starts(clip: Clip) -> None:
    with VideoDecoder(clip("oneframe.mp4"), dimension_order="NCHW") as decoder:
        batch = clips_at_regular_indices(decoder, num_clips=3, num_frames_per_clip=2)
        assert numbers(batch.data) == [[0, 0]] * 3


@pytest.mark.parametrize(
    ("policy", "shown"), [("repeat_last", [86, 88, 88, 88, 88]), ("wrap", [86, 88, 86, 88, 86])]
)
def test_policies(clip: Clip, policy: Any, shown: list[int]) -> None:
    options: Any = {
        "num_frames_per_clip": 5,
        "num_indices_between_frames": 2,
        "sampling_range_start": -4,
        "sampling_range_end": -3,
        "policy": policy,
    }
    with VideoDecoder(clip("pyramid.mp4"), dimension_order="NCHW") as decoder:
        assert numbers(clips_at_random_indices(decoder, **options).data) == [shown]
        options["policy"] = "error"
        with pytest.raises(ArgumentError, match="beyond the end of the video"):
            clips_at_random_indices(decoder, **options)
        by_time: Any = {
            "num_frames_per_clip": 5,
            "seconds_between_frames": 2 / 30,
            "sampling_range_start": 86.5 / 30,
            "sampling_range_end": 86.6 / 30,
            "policy": policy,
        }
        assert numbers(clips_at_random_timestamps(decoder, **by_time).data) == [shown]
        by_time["policy"] = "error"
        with pytest.raises(ArgumentError, match="beyond the end of the video"):
            clips_at_random_timestamps(decoder, **by_time)


def test_random_clips_fit_in(clip: Clip) -> None:
    with VideoDecoder(clip("pyramid.mp4"), dimension_order="NCHW") as decoder:
        batch = clips_at_random_indices(decoder, num_clips=30, num_frames_per_clip=40)
        starts = [shown[0] for shown in numbers(batch.data)]
        assert numbers(batch.data) == [list(range(s, s + 40)) for s in starts]
        assert len(set(starts)) > 10
        batch = clips_at_random_timestamps(decoder, num_clips=30, num_frames_per_clip=40)
        starts = [shown[0] for shown in numbers(batch.data)]
        assert numbers(batch.data) == [list(range(s, s + 40)) for s in starts]
        assert len(set(starts)) > 10


def test_regular_timestamps(clip: Clip) -> None:
    with VideoDecoder(clip("pyramid.mp4"), dimension_order="NCHW") as decoder:
        batch = clips_at_regular_timestamps(
            decoder, seconds_between_clip_starts=1.0, num_frames_per_clip=2,
            seconds_between_frames=0.5, sampling_range_start=0.01,
        )  # fmt: skip
        assert numbers(batch.data) == [[0, 15], [30, 45], [60, 75]]


def test_the_memory_is_shared(clip: Clip) -> None:
    for order, shape in (("NHWC", (2, 3, 96, 128, 3)), ("NCHW", (2, 3, 3, 96, 128))):
        with VideoDecoder(clip("pyramid.mp4"), dimension_order=order) as decoder:  # type: ignore[arg-type]
            batch = decoder.get_frames_at(range(6))
            tensors = as_tensors(batch, 2)
            assert tuple(tensors.data.shape) == shape
            assert isinstance(batch.data, np.ndarray)
            assert tensors.data.data_ptr() == batch.data.__array_interface__["data"][0]
    with VideoDecoder(clip("pyramid.mp4"), pixel_format="native") as decoder:
        batch = decoder.get_frames_at([0])
        with pytest.raises(ArgumentError, match="native planes"):
            as_tensors(batch)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_clips": 0}, "num_clips must be positive"),
        ({"num_frames_per_clip": 0}, "num_frames_per_clip must be positive"),
        ({"num_indices_between_frames": 0}, "num_indices_between_frames must be positive"),
        ({"policy": "stop"}, "policy must be one of 'repeat_last', 'wrap', 'error'"),
        ({"sampling_range_start": 90}, "sampling_range_start is 90: the video has 90 frames"),
        ({"sampling_range_start": -91}, "sampling_range_start is -91"),
        ({"sampling_range_start": 5, "sampling_range_end": 5}, "is not before"),
        ({"sampling_range_start": 80, "num_frames_per_clip": 30}, "is not before the last clip"),
    ],
)
def test_bad_arguments_by_index(clip: Clip, options: dict[str, Any], message: str) -> None:
    with VideoDecoder(clip("pyramid.mp4")) as decoder:
        for sampler in (clips_at_random_indices, clips_at_regular_indices):
            with pytest.raises(ArgumentError, match=message):
                sampler(decoder, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_clips": 0}, "num_clips must be positive"),
        ({"seconds_between_clip_starts": 0.0}, "seconds_between_clip_starts must be positive"),
        ({"num_frames_per_clip": 0}, "num_frames_per_clip must be positive"),
        ({"seconds_between_frames": 0.0}, "seconds_between_frames must be positive"),
        ({"policy": "stop"}, "policy must be one of"),
        ({"sampling_range_start": 3.0}, "sampling_range_start is 3.0: the video goes from 0.0 s"),
        ({"sampling_range_start": -0.1}, "sampling_range_start is -0.1"),
        ({"sampling_range_end": 0.0}, "sampling_range_end is 0.0"),
        ({"sampling_range_start": 2.0, "sampling_range_end": 2.0}, "is not before"),
    ],
)
def test_bad_arguments_by_time(clip: Clip, options: dict[str, Any], message: str) -> None:
    regular = "seconds_between_clip_starts" in options
    sampler: Any = clips_at_regular_timestamps if regular else clips_at_random_timestamps
    with VideoDecoder(clip("pyramid.mp4")) as decoder, pytest.raises(ArgumentError, match=message):
        sampler(decoder, **options)


def test_no_timestamps(clip: Clip) -> None:
    with VideoDecoder(clip("pyramid.264")) as decoder:
        with pytest.raises(UnsupportedError, match="no timestamps"):
            clips_at_random_timestamps(decoder)
        assert clips_at_regular_indices(decoder).data.shape == (1, 1, 96, 128, 3)


# -- samplers, by what torchcodec's return ------------------------------------------------------

BY_INDEX = [
    {"num_clips": 3, "num_frames_per_clip": 4, "num_indices_between_frames": 5},
    {"num_clips": 7, "num_frames_per_clip": 1},
    {"num_clips": 40, "num_frames_per_clip": 1, "sampling_range_start": 60},
    {"num_clips": 4, "num_frames_per_clip": 6, "sampling_range_start": -8,
     "sampling_range_end": -1},
    {"num_clips": 2, "num_frames_per_clip": 100},
    {"num_clips": 5, "num_frames_per_clip": 9, "num_indices_between_frames": 4,
     "sampling_range_start": 60, "sampling_range_end": 1000},
]  # fmt: skip
BY_TIME = [
    {"num_frames_per_clip": 4, "seconds_between_frames": 0.1},
    {"num_frames_per_clip": 3},
    {"num_frames_per_clip": 5, "seconds_between_frames": 0.21, "sampling_range_start": 2.0,
     "sampling_range_end": 2.9},
    {"num_frames_per_clip": 2, "sampling_range_start": 0.5},
]  # fmt: skip


@pytest.fixture(params=["pyramid.mp4", "vfr.mp4", "noedit.mp4", "hevc_radl.mp4"])
def pair(request: pytest.FixtureRequest, clip: Clip) -> Iterator[Pair]:
    """A decoder of this package and torchcodec's, of one file; whether its pace is steady."""
    decoders = pytest.importorskip(
        "torchcodec.decoders",
        reason="torchcodec is not installed, or finds no FFmpeg to load",
        exc_type=(ImportError, RuntimeError),
    )
    path = clip(request.param)
    with VideoDecoder(path, dimension_order="NCHW") as decoder:
        yield decoder, decoders.VideoDecoder(path), request.param != "vfr.mp4"


def _same(ours: Any, theirs: Any, steady: bool) -> None:
    assert ours.data.shape == theirs.data.shape
    assert ours.data.dtype == theirs.data.dtype
    assert numbers(ours.data) == numbers(theirs.data)
    # the pictures are converted by two FFmpegs, which may round differently
    assert (ours.data.int() - theirs.data.int()).abs().max() <= 3
    assert torch.allclose(ours.pts_seconds, theirs.pts_seconds, atol=1e-9)
    assert ours.duration_seconds.dtype == theirs.duration_seconds.dtype
    assert ours.duration_seconds.shape == theirs.duration_seconds.shape
    if steady:
        # elsewhere the packets' durations don't reach to the next frame's time, which ours do
        assert torch.allclose(ours.duration_seconds, theirs.duration_seconds, atol=1e-9)


@pytest.mark.parametrize("policy", ["repeat_last", "wrap"])
@pytest.mark.parametrize("options", BY_INDEX)
def test_torchcodec_by_index(pair: Pair, options: Any, policy: Any) -> None:
    import torchcodec.samplers as theirs

    for ours, other in (
        (clips_at_random_indices, theirs.clips_at_random_indices),
        (clips_at_regular_indices, theirs.clips_at_regular_indices),
    ):
        torch.manual_seed(3)
        mine = ours(pair[0], policy=policy, **options)
        torch.manual_seed(3)
        _same(mine, other(pair[1], policy=policy, **options), pair[2])


@pytest.mark.parametrize("policy", ["repeat_last", "wrap"])
@pytest.mark.parametrize("options", BY_TIME)
def test_torchcodec_by_time(pair: Pair, options: Any, policy: Any) -> None:
    import torchcodec.samplers as theirs

    torch.manual_seed(3)
    mine = clips_at_random_timestamps(pair[0], num_clips=6, policy=policy, **options)
    torch.manual_seed(3)
    other = theirs.clips_at_random_timestamps(pair[1], num_clips=6, policy=policy, **options)
    _same(mine, other, pair[2])
    every: Any = {"seconds_between_clip_starts": 0.37, "policy": policy, **options}
    mine = clips_at_regular_timestamps(pair[0], **every)
    _same(mine, theirs.clips_at_regular_timestamps(pair[1], **every), pair[2])


# -- the data set -------------------------------------------------------------------------------


@pytest.fixture
def sources(clip: Clip) -> list[str]:
    return [clip(name) for name in ("pyramid.mp4", "onekey.mp4", "hevc_radl.mp4")]


def test_regular_clips(sources: list[str]) -> None:
    data = ClipDataset(sources, num_frames_per_clip=4, clips_per_video=3, sampling="regular")
    assert len(data) == 9
    for k in range(9):
        item = data[k]
        start = (0, 43, 86)[k % 3]
        assert item["video"] == k // 3
        assert item["frames"].shape == (4, 3, 96, 128)
        assert numbers(item["frames"]) == list(range(start, start + 4))
        assert item["indices"].tolist() == list(range(start, start + 4))
        assert torch.allclose(item["pts_seconds"], item["indices"].double() / 30)
    assert data[-1]["indices"].tolist() == data[8]["indices"].tolist()
    with pytest.raises(IndexError, match="there is no clip 9: there are 9"):
        data[9]


def test_options(sources: list[str]) -> None:
    data = ClipDataset(
        sources,
        num_frames_per_clip=2,
        num_indices_between_frames=7,
        dimension_order="NHWC",
        transform=lambda frames: frames.float().div(255),
        max_decoders=1,
        decoder_options={"pixel_format": "gray", "index": "lazy", "threads": 2},
    )
    for k in (0, 1, 2, 0):
        item = data[k]
        assert item["frames"].shape == (2, 96, 128, 1)
        assert item["frames"].dtype == torch.float32
        first, second = item["indices"].tolist()
        assert second == first + 7
        shown = [media.number_of((frame * 255).byte().numpy()) for frame in item["frames"]]
        assert shown == [first, second]
    assert len(data._decoders._open) == 1


def _starts(data: ClipDataset, **options: Any) -> list[list[int]]:
    loader = DataLoader(data, batch_size=4, **options)
    starts = []
    for batch in loader:
        shown = numbers(batch["frames"])
        assert shown == batch["indices"].tolist()
        starts += [[int(v), clip[0]] for v, clip in zip(batch["video"], shown, strict=True)]
    return starts


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_give_the_same_clips(sources: list[str], method: str) -> None:
    data = ClipDataset(sources, num_frames_per_clip=3, clips_per_video=4, seed=11)
    # the parent's decoders are open when the workers begin
    alone = _starts(data)
    assert len({tuple(start) for start in alone}) > 8
    two: Any = {"num_workers": 2, "multiprocessing_context": method}
    assert _starts(data, **two) == alone
    assert _starts(data) == alone
    data.set_epoch(1)
    second = _starts(data)
    assert second != alone
    assert _starts(pickle.loads(pickle.dumps(data))) == second


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_workers_that_live_on_learn_of_an_epoch(sources: list[str]) -> None:
    data = ClipDataset(sources, num_frames_per_clip=2, clips_per_video=2, seed=5)
    loader = DataLoader(
        data, num_workers=1, persistent_workers=True, multiprocessing_context="fork"
    )
    epochs = []
    for epoch in (0, 1, 0):
        data.set_epoch(epoch)
        epochs.append([batch["indices"].tolist() for batch in loader])
    assert epochs[0] == epochs[2] != epochs[1]


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_workers_without_a_seed_differ(clip: Clip) -> None:
    # every worker draws from a generator of its own, for each epoch anew
    data = ClipDataset([clip("pyramid.mp4")] * 12, num_frames_per_clip=1)
    loader = DataLoader(data, num_workers=2, batch_size=6, multiprocessing_context="fork")
    epochs = [[batch["indices"].flatten().tolist() for batch in loader] for _ in range(2)]
    assert len({tuple(batch) for batch in itertools.chain(*epochs)}) == 4


def test_bad_data_sets(sources: list[str]) -> None:
    with pytest.raises(ArgumentError, match="sampling must be"):
        ClipDataset(sources, sampling="all")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="clips_per_video must be positive"):
        ClipDataset(sources, clips_per_video=0)
    with pytest.raises(ArgumentError, match="max_decoders must be positive"):
        ClipDataset(sources, max_decoders=0)
    with pytest.raises(ArgumentError, match="num_indices_between_frames must be positive"):
        ClipDataset(sources, num_indices_between_frames=0)
    with pytest.raises(ArgumentError, match="num_frames_per_clip must be positive"):
        ClipDataset(sources, num_frames_per_clip=0)[0]
    with pytest.raises(SourceError, match=r"nowhere\.mp4: can't be opened"):
        ClipDataset(["nowhere.mp4"])[0]


# -- the example --------------------------------------------------------------------------------


def test_example(tmp_path: Path) -> None:
    command = [sys.executable, EXAMPLE, "--clips", "4", "--epochs", "1", "--folder", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "samples a second" in done.stdout
