"""LeRobot itself, reading with this package in its reader's place. See `make test-lerobot`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import media
import numpy as np
import pytest

pytest.importorskip("lerobot", reason="lerobot is not installed; see make test-lerobot")

import torch
from encoder_program import needs_program
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot_data import FPS, LENGTHS, TOP, WRIST, Made, make_dataset

from sparseframes.lerobot import (
    LeRobotEpisodes,
    convert,
    decode_video_frames,
    install,
    installed,
    uninstall,
)

# its libraries warn of one another
pytestmark = pytest.mark.filterwarnings("default")

DELTAS = {TOP: [-2 / FPS, 0.0, 1 / FPS], WRIST: [0.0], "action": [0.0, 1 / FPS]}


@pytest.fixture(scope="module", params=["libx264", "libsvtav1"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_dataset(tmp_path_factory.mktemp("real") / "dataset", request.param)


def opened(root: Path, backend: str, **options: Any) -> Any:
    return LeRobotDataset("local/made", root=root, video_backend=backend, **options)


def number(frame: Any) -> int:
    """The number in a picture [C, H, W] of floats."""
    return media.number_of((frame.permute(1, 2, 0) * 255).round().byte().numpy())


@pytest.mark.parametrize("backend", ["torchcodec", "pyav"])
def test_made_data_sets_are_lerobots(made: Made, backend: str) -> None:
    data = opened(made.root, backend)
    assert len(data) == sum(LENGTHS)
    for k in (0, 11, 12, 13, 20, 21, 27):
        item = data[k]
        assert [number(item[key]) for key in (TOP, WRIST)] == [
            made.numbers[TOP][k],
            made.numbers[WRIST][k],
        ]


@pytest.mark.parametrize("deltas", [None, DELTAS])
def test_installed(made: Made, deltas: Any) -> None:
    data = opened(made.root, "pyav", delta_timestamps=deltas)
    rows = range(0, len(data), 3)
    theirs = [data[k] for k in rows]
    install()
    try:
        assert installed()
        ours = [data[k] for k in rows]
    finally:
        uninstall()
    assert not installed()
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.keys() == other.keys()
        for key, value in other.items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(mine[key], value), key
                assert mine[key].dtype == value.dtype
            else:
                assert mine[key] == value


@pytest.mark.parametrize("deltas", [None, DELTAS])
def test_episodes_are_lerobots(made: Made, deltas: Any) -> None:
    theirs = opened(made.root, "pyav", delta_timestamps=deltas)
    ours = LeRobotEpisodes(made.root, delta_timestamps=deltas)
    assert len(ours) == len(theirs)
    for k in range(0, len(ours), 3):
        mine, other = ours[k], theirs[k]
        assert set(mine) == set(other)
        for key, value in other.items():
            if key in (TOP, WRIST):
                assert np.array_equal(mine[key], (value * 255).round().byte().numpy()), key
            elif isinstance(value, torch.Tensor):
                assert np.array_equal(mine[key], value.numpy()), key
                assert np.asarray(mine[key]).dtype == value.numpy().dtype
            else:
                assert mine[key] == value


def test_the_function(made: Made) -> None:
    from lerobot.datasets import video_utils

    path = made.root / "videos" / WRIST / "chunk-000/file-000.mp4"
    times = [k / FPS for k in (20, 3, 3, 0, 11)]
    assert torch.equal(
        decode_video_frames(path, times, 1e-4),
        video_utils.decode_video_frames(path, times, 1e-4, "pyav"),
    )
    install()
    try:
        with pytest.raises(video_utils.FrameTimestampError, match="violate the tolerance"):
            video_utils.decode_video_frames(path, [0.05], 1e-4)
    finally:
        uninstall()


@needs_program
@pytest.mark.parametrize("codec", ["hevc", "h264"])
def test_converted_data_sets_are_lerobots(made: Made, tmp_path: Path, codec: str) -> None:
    dest = tmp_path / "new"
    convert(made.root, dest, codec=codec, period=8, preset="ultrafast", threads=1)
    for backend in ("torchcodec", "pyav"):
        data = opened(dest, backend)
        for k in range(len(data)):
            item = data[k]
            assert number(item[TOP]) == made.numbers[TOP][k], (backend, k)
            assert number(item[WRIST]) == made.numbers[WRIST][k], (backend, k)
