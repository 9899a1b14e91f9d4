"""Data sets in LeRobot's layout, and frames by time: what needs no torch."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="data sets are read with pyarrow, which is not installed")

import lerobot_data
import media
from lerobot_data import DEPTH, FPS, LENGTHS, TASKS, TOP, WRIST, Made, make_dataset, pyav_frames

from sparseframes import SparseError, UnsupportedError, VideoDecoder
from sparseframes.errors import ArgumentError
from sparseframes.lerobot import (
    DatasetError,
    FrameTimestampError,
    LeRobotEpisodes,
    VideoDecoderCache,
)
from sparseframes.lerobot._cache import VARIABLE
from sparseframes.lerobot._times import TimedVideo

Frames = Callable[[Path], list[np.ndarray]]
START = [0, *np.cumsum(LENGTHS).tolist()]


@pytest.fixture(scope="module", params=["libx264", "libsvtav1"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A data set of two cameras, as LeRobot makes them, and in H.264 with B pictures."""
    return make_dataset(tmp_path_factory.mktemp("lerobot") / "dataset", request.param)


@pytest.fixture(scope="module")
def with_depth(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A data set with a third camera of depth."""
    return make_dataset(tmp_path_factory.mktemp("depth") / "dataset", depth=True)


@pytest.fixture
def copy(with_depth: Made, tmp_path: Path) -> Path:
    """A copy of a data set to do harm to."""
    return Path(shutil.copytree(with_depth.root, tmp_path / "copy"))


def linear(made: Made, key: str) -> list[np.ndarray]:
    """The frames of a camera for all rows, by plain decodes of its files."""
    files = sorted((made.root / "videos" / key).glob("*/*.mp4"))
    return [frame for file in files for frame in pyav_frames(file)]


# -- samples ------------------------------------------------------------------------------------


def test_every_sample_is_the_linear_decode(made: Made) -> None:
    data = LeRobotEpisodes(made.root)
    assert len(data) == sum(LENGTHS)
    assert data.cameras == [TOP, WRIST]
    frames = {key: linear(made, key) for key in data.cameras}
    for k in np.random.default_rng(0).permutation(len(data)).tolist():
        sample = data[k]
        for key in data.cameras:
            assert sample[key].dtype == np.uint8
            assert np.array_equal(sample[key].transpose(1, 2, 0), frames[key][k])
            assert media.number_of(frames[key][k]) == made.numbers[key][k]
        assert sample["index"] == k
        assert sample["episode_index"] == made.episode_of[k]
        assert sample["observation.state"].tolist() == [k, k + 0.5, -k]
        assert sample["action"].tolist() == [2 * k, 1]
        assert sample["timestamp"] == np.float32((k - START[made.episode_of[k]]) / FPS)
        assert sample["task"] == TASKS[made.episode_of[k] % 2]
    assert data[-1]["index"] == len(data) - 1


def test_deltas_stay_in_their_episode(made: Made) -> None:
    deltas = {TOP: [-2 / FPS, 0.0, 3 / FPS], WRIST: [-1 / FPS], "action": [0.0, 1 / FPS]}
    data = LeRobotEpisodes(made.root, delta_timestamps=deltas)
    for k in (0, 1, 10, 11, 12, 13, 20, 21, 26, 27):
        sample = data[k]
        first, last = START[made.episode_of[k]], START[made.episode_of[k] + 1] - 1
        wanted = {key: [k + round(d * FPS) for d in times] for key, times in deltas.items()}
        for key, rows in wanted.items():
            assert sample[f"{key}_is_pad"].tolist() == [not first <= row <= last for row in rows]
        clamped = {key: [min(max(r, first), last) for r in rows] for key, rows in wanted.items()}
        shown = [media.number_of(frame.transpose(1, 2, 0)) for frame in sample[TOP]]
        assert shown == [made.numbers[TOP][row] for row in clamped[TOP]]
        # a single time has no axis of its own, as in LeRobot
        assert sample[WRIST].shape == (3, 96, 128)
        assert (
            media.number_of(sample[WRIST].transpose(1, 2, 0))
            == (made.numbers[WRIST][clamped[WRIST][0]])
        )
        assert sample["action"][:, 0].tolist() == [2 * row for row in clamped["action"]]


def test_batches_are_their_samples(made: Made) -> None:
    data = LeRobotEpisodes(made.root, delta_timestamps={TOP: [0.0, 2 / FPS]}, threads=2)
    picked = [5, 20, 5, -1, 13]
    for sample, k in zip(data.__getitems__(picked), picked, strict=True):
        single = data[k]
        assert sample.keys() == single.keys()
        for key, value in single.items():
            assert np.array_equal(sample[key], value)


def test_some_episodes_and_cameras(made: Made) -> None:
    data = LeRobotEpisodes(made.root, episodes=[2, 0], cameras=[WRIST], dimension_order="NHWC")
    rows = [*range(START[0], START[1]), *range(START[2], START[3])]
    assert [episode.index for episode in data.episodes] == [0, 2]
    assert [len(episode) for episode in data.episodes] == [12, 7]
    assert len(data) == len(rows)
    for k in (0, 11, 12, 18):
        sample = data[k]
        assert TOP not in sample
        assert sample["index"] == rows[k]
        assert media.number_of(sample[WRIST]) == made.numbers[WRIST][rows[k]]


def test_depth_is_its_codes(with_depth: Made) -> None:
    data = LeRobotEpisodes(with_depth.root, delta_timestamps={DEPTH: [0.0, 1 / FPS]})
    assert data.depth_cameras == [DEPTH]
    sample = data[4]
    assert sample[DEPTH].dtype == np.uint16
    assert sample[DEPTH].shape == (2, 1, 96, 128)
    for k in range(2):
        codes = lerobot_data.depth_codes(with_depth.numbers[DEPTH][4 + k])
        assert np.array_equal(sample[DEPTH][k, 0], codes)


def _shown(data: LeRobotEpisodes, k: int) -> int:
    return media.number_of(data[k][TOP].transpose(1, 2, 0))


def _put(data: LeRobotEpisodes, k: int, queue: Any) -> None:
    queue.put(_shown(data, k))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_other_processes(with_depth: Made, method: str) -> None:
    data = LeRobotEpisodes(with_depth.root, episodes=[1])
    assert _shown(data, 0) == START[1]
    assert _shown(pickle.loads(pickle.dumps(data)), 2) == START[1] + 2
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_put, args=(data, 3, queue))
    child.start()
    assert queue.get(timeout=60) == START[1] + 3
    child.join(60)
    assert child.exitcode == 0
    assert _shown(data, 4) == START[1] + 4


# -- bad data sets and arguments ----------------------------------------------------------------


def _edit_info(root: Path, **values: Any) -> None:
    path = root / "meta/info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_no_data_set(tmp_path: Path, copy: Path) -> None:
    with pytest.raises(DatasetError, match=r"info\.json: No such file"):
        LeRobotEpisodes(tmp_path)
    _edit_info(copy, codebase_version="v2.1")
    with pytest.raises(DatasetError, match=r"the layout is v2.1, and only v3 is read"):
        LeRobotEpisodes(copy)
    _edit_info(copy, codebase_version="v3.0", fps=0)
    with pytest.raises(DatasetError, match="fps is 0"):
        LeRobotEpisodes(copy)
    _edit_info(copy, fps=FPS, features=[])
    with pytest.raises(DatasetError, match="no features"):
        LeRobotEpisodes(copy)
    (copy / "meta/info.json").write_text("{")
    with pytest.raises(DatasetError, match=r"info\.json: Expecting"):
        LeRobotEpisodes(copy)


def test_missing_parts(copy: Path) -> None:
    shutil.rmtree(copy / "videos" / WRIST)
    data = LeRobotEpisodes(copy)
    with pytest.raises(SparseError, match=r"wrist.*No such file"):
        data[0]
    assert LeRobotEpisodes(copy, cameras=[TOP])[0]["index"] == 0
    (copy / "data/chunk-000/file-001.parquet").unlink()
    with pytest.raises(DatasetError, match=r"file-001\.parquet"):
        LeRobotEpisodes(copy)
    assert len(LeRobotEpisodes(copy, episodes=[0])) == LENGTHS[0]
    shutil.copy(copy / "data/chunk-000/file-000.parquet", copy / "data/chunk-000/file-001.parquet")
    with pytest.raises(DatasetError, match="episode 0 should have 12 rows and has 24"):
        LeRobotEpisodes(copy)
    shutil.rmtree(copy / "meta/episodes")
    with pytest.raises(DatasetError, match="no table of episodes"):
        LeRobotEpisodes(copy)


def test_times_that_are_off(copy: Path) -> None:
    # the videos of a camera change places: no frame of the shorter one is late enough
    files = sorted((copy / "videos" / TOP).glob("*/*.mp4"))
    shutil.copy(files[1], files[0])
    data = LeRobotEpisodes(copy)
    assert data[0]["index"] == 0
    with pytest.raises(FrameTimestampError, match=r"(?s)1 of 1 query timestamps.*file-000"):
        data[15]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta_timestamps": {TOP: [0.01]}}, r"multiples of 1/30 s, not \[0.01\]"),
        ({"delta_timestamps": {TOP: []}}, "multiples of 1/30 s, not nothing"),
        ({"delta_timestamps": {"speed": [0.0]}}, "the data set has no 'speed'"),
        ({"episodes": [3]}, "there is no 3; there are 3"),
        ({"cameras": ["front"]}, "there is no 'front'; there are"),
        ({"dimension_order": "HWC"}, "dimension_order must be"),
    ],
)
def test_bad_arguments(with_depth: Made, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        LeRobotEpisodes(with_depth.root, **options)


def test_no_such_sample(with_depth: Made) -> None:
    data = LeRobotEpisodes(with_depth.root)
    with pytest.raises(IndexError, match="there is no sample 28: there are 28"):
        data[28]
    with pytest.raises(TypeError, match="integer"):
        data["0"]  # type: ignore[index]


# -- frames by time -----------------------------------------------------------------------------


@pytest.mark.parametrize("index", ["lazy", "whole"])
@pytest.mark.parametrize("name", ["pyramid.mp4", "vfr.mp4", "noedit.mp4", "hevc_opengop.mp4"])
def test_the_nearest_frame(clip: Callable[[str], str], name: str, index: Any) -> None:
    with VideoDecoder(clip(name), index=index) as decoder:
        video = TimedVideo(decoder)
        pts = decoder.get_all_frames().pts_seconds
        rng = np.random.default_rng(1)
        wanted = rng.uniform(pts[0] - 0.01, pts[-1] + 0.01, 40)
        nearest = np.abs(wanted[:, None] - pts).argmin(1)
        assert video.find(wanted.tolist(), 1.0).tolist() == nearest.tolist()
        batch = video.frames(wanted[:8].tolist(), 1.0)
        assert [media.number_of(frame) for frame in batch.data] == nearest[:8].tolist()


def test_the_tolerance_is_included(clip: Callable[[str], str]) -> None:
    with VideoDecoder(clip("pyramid.mp4")) as decoder:
        video = TimedVideo(decoder)
        for k in (1, 7, 29, 61, 88):
            for sign in (-1, 1):
                assert video.find([k / 30 + sign * 1e-4], 1e-4).tolist() == [k]
                with pytest.raises(FrameTimestampError):
                    video.find([k / 30 + sign * 1.01e-4], 1e-4)
        # of two that are equally near the first
        assert video.find([3.5 / 30], 1.0).tolist() in ([3], [4])
        assert video.find([0.0], 0.0).tolist() == [0]


def test_the_message_tells_all(clip: Callable[[str], str]) -> None:
    with VideoDecoder(clip("pyramid.mp4")) as decoder:
        video = TimedVideo(decoder)
        with pytest.raises(ValueError, match="violate the tolerance") as caught:
            video.find([0.5, 4.0], 1e-4)
    text = str(caught.value)
    assert "1 of 2 query timestamps violate the tolerance: [1.033333] > tolerance_s=0.0001" in text
    assert "queried timestamps: [0.500000, 4.000000]" in text
    assert "nearest timestamps: [0.500000, 2.966667]" in text
    assert text.endswith(f"video: {clip('pyramid.mp4')}")
    assert isinstance(caught.value, FrameTimestampError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is FrameTimestampError
    assert str(again) == text


def test_equal_and_missing_times(clip: Callable[[str], str]) -> None:
    with VideoDecoder(clip("duppts.mkv")) as decoder:
        video = TimedVideo(decoder)
        pts = decoder.get_all_frames().pts_seconds.tolist()
        double = next(k for k in range(len(pts) - 1) if pts[k] == pts[k + 1])
        assert video.find([pts[double]], 1e-4).tolist() == [double]
    with VideoDecoder(clip("pyramid.264")) as decoder:
        video = TimedVideo(decoder)
        with pytest.raises(UnsupportedError, match="not all frames have timestamps"):
            video.find([0.0], 1e-4)
    with VideoDecoder(clip("oneframe.mp4")) as decoder:
        assert TimedVideo(decoder).find([0.0, 0.2], 1.0).tolist() == [0, 0]


def test_bad_times(clip: Callable[[str], str]) -> None:
    with VideoDecoder(clip("oneframe.mp4")) as decoder:
        video = TimedVideo(decoder)
        with pytest.raises(ArgumentError, match="timestamps must be numbers"):
            video.find([float("nan")], 1.0)
        with pytest.raises(ArgumentError, match="tolerance_s at least 0"):
            video.find([0.0], -1.0)
        with pytest.raises(TypeError, match="number of seconds"):
            video.find(["0"], 1.0)  # type: ignore[list-item]


def test_a_table_that_lies_is_looked_up_again(clip: Callable[[str], str]) -> None:
    # the frames of a lazy index may be numbered otherwise once their headers are read
    with VideoDecoder(clip("pyramid.mp4"), index="lazy") as decoder:
        video = TimedVideo(decoder)
        video.find([0.5], 1e-4)
        clock = video._clock
        assert clock is not None
        clock.pts[:] = np.roll(clock.pts, 1)
        batch = video.frames([0.5], 1e-4)
        assert media.number_of(batch.data[0]) == 15
        assert video._clock is not clock


# -- the cache ----------------------------------------------------------------------------------


def test_the_least_recently_used_goes(clip: Callable[[str], str]) -> None:
    names = [clip(name) for name in ("pyramid.mp4", "onekey.mp4", "oneframe.mp4")]
    cache = VideoDecoderCache(max_size=2)
    first = cache.get_decoder(names[0])
    cache.get_decoder(names[1])
    assert cache.get_decoder(Path(names[0])) is first
    cache.get_decoder(names[2])
    assert [name in cache for name in names] == [True, False, True]
    assert cache.size() == 2
    cache.get_decoder(names[1])
    # out of the cache, and still good for whoever has it
    assert names[0] not in cache
    assert media.number_of(first[5]) == 5
    cache.clear()
    assert cache.size() == 0
    with pytest.raises(ArgumentError, match="positive"):
        VideoDecoderCache(max_size=0)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (None, 100),
        ("7", 7),
        (" 12 ", 12),
        ("none", None),
        ("Unbounded", None),
        ("-1", None),
        ("", None),
    ],
)
def test_size_by_variable(
    monkeypatch: pytest.MonkeyPatch, text: str | None, size: int | None
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if text is not None:
        monkeypatch.setenv(VARIABLE, text)
    assert VideoDecoderCache().max_size == size


@pytest.mark.parametrize("text", ["0", "-2", "many", "1.5"])
def test_bad_variable(
    monkeypatch: pytest.MonkeyPatch, text: str, clip: Callable[[str], str]
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ArgumentError, match=f"{VARIABLE} must be a positive integer"):
        VideoDecoderCache().get_decoder(clip("oneframe.mp4"))


def _use_in_child(cache: VideoDecoderCache, path: str, queue: Any) -> None:
    queue.put((cache.size(), media.number_of(cache.get_decoder(path)[7])))


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_fork_while_the_cache_is_locked(clip: Callable[[str], str]) -> None:
    cache, path = VideoDecoderCache(), clip("pyramid.mp4")
    cache.get_decoder(path)[3]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    locked, release = threading.Event(), threading.Event()

    def hold() -> None:
        with cache._lock:
            locked.set()
            release.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    locked.wait(60)
    child = context.Process(target=_use_in_child, args=(cache, path, queue))
    child.start()
    try:
        assert queue.get(timeout=60) == (0, 7)
    finally:
        release.set()
        holder.join()
        child.join(60)
    assert cache.size() == 1
