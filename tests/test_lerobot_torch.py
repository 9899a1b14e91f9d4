"""LeRobot's reading function as tensors, and its installation. See `make test-torch`."""

from __future__ import annotations

import importlib.metadata
import sys
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import media
import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed; see make test-torch")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

import torch
from lerobot_data import DEPTH, SIZE, depth_codes, encode, make_dataset, pyav_frames
from torch.utils.data import DataLoader

from sparseframes import UnsupportedError
from sparseframes.errors import ArgumentError
from sparseframes.lerobot import (
    FrameTimestampError,
    LeRobotEpisodes,
    VersionError,
    decode_video_frames,
    install,
    installed,
    uninstall,
)

Clip = Callable[[str], str]


# -- the function -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pyramid.mp4", "vfr.mp4", "hevc_opengop.mp4"])
def test_frames_are_pyavs(clip: Clip, name: str) -> None:
    path = Path(clip(name))
    frames = pyav_frames(path)
    pts = (np.array(media.VFR_PTS) if name == "vfr.mp4" else np.arange(media.FRAMES)) / 30
    picked = [40, 3, 3, 88, 0]
    got = decode_video_frames(path, pts[picked].tolist(), 1e-4, return_uint8=True)
    assert got.dtype == torch.uint8
    assert got.shape == (5, 3, 96, 128)
    for k, number in enumerate(picked):
        assert np.array_equal(got[k].permute(1, 2, 0).numpy(), frames[number])
    scaled = decode_video_frames(str(path), pts[picked].tolist(), 1e-4, "torchcodec")
    assert scaled.dtype == torch.float32
    assert torch.equal(scaled, got.type(torch.float32) / 255)


def test_depth(tmp_path: Path, clip: Clip) -> None:
    path = tmp_path / "depth.mp4"
    encode(path, [3, 4, 5, 6], "libx265", {})
    for as_uint8 in (False, True):
        got = decode_video_frames(path, [0.1, 1 / 30], 1e-4, "pyav", as_uint8, is_depth=True)
        assert got.dtype == torch.uint16
        assert got.shape == (2, 1, SIZE[1], SIZE[0])
        assert np.array_equal(got[0, 0].numpy(), depth_codes(6))
        assert np.array_equal(got[1, 0].numpy(), depth_codes(4))
    with pytest.raises(UnsupportedError, match="depth has to be gray12le, and this is yuv420p"):
        decode_video_frames(clip("pyramid.mp4"), [0.0], 1e-4, is_depth=True)


def test_arguments(clip: Clip) -> None:
    with pytest.raises(ArgumentError, match="backend must be None or one of"):
        decode_video_frames(clip("pyramid.mp4"), [0.0], 1e-4, backend="opencv")
    with pytest.raises(ArgumentError, match="no timestamps"):
        decode_video_frames(clip("pyramid.mp4"), [], 1e-4)
    with pytest.raises(FrameTimestampError, match="violate the tolerance"):
        decode_video_frames(clip("pyramid.mp4"), [0.01], 1e-4)
    times = torch.tensor([0.5, 1.0], dtype=torch.float64)
    got = decode_video_frames(clip("pyramid.mp4"), times, 1e-4, return_uint8=True)  # type: ignore[arg-type]
    assert [media.number_of(frame.permute(1, 2, 0).numpy()) for frame in got] == [15, 30]


def test_threads(clip: Clip) -> None:
    # LeRobot has a thread for each camera
    names = ["pyramid.mp4", "onekey.mp4", "pyramid.mp4"]

    def work(k: int) -> int:
        number = (k * 7) % media.FRAMES
        got = decode_video_frames(clip(names[k % 3]), [number / 30], 1e-4, return_uint8=True)
        return media.number_of(got[0].permute(1, 2, 0).numpy()) - number

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(60))) == {0}


@pytest.mark.parametrize("scheme", ["file://", "memory://"])
def test_urls(clip: Clip, tmp_path: Path, scheme: str) -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    url = f"{scheme}{tmp_path}/copy.mp4"
    with fsspec.open(url, "wb") as file:
        file.write(Path(clip("pyramid.mp4")).read_bytes())
    got = decode_video_frames(url, [0.5], 1e-4, return_uint8=True)
    assert media.number_of(got[0].permute(1, 2, 0).numpy()) == 15


# -- data sets ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_loader(tmp_path: Path, method: str) -> None:
    made = make_dataset(tmp_path / "dataset", depth=True)
    data = LeRobotEpisodes(made.root, delta_timestamps={DEPTH: [-1 / 30, 0.0]})
    assert data[0]["index"] == 0
    loader = DataLoader(data, batch_size=5, num_workers=2, multiprocessing_context=method)
    seen = []
    for batch in loader:
        seen += batch["index"].tolist()
        for key in data.cameras[:2]:
            assert batch[key].dtype == torch.uint8
            shown = [media.number_of(frame.permute(1, 2, 0).numpy()) for frame in batch[key]]
            assert shown == [made.numbers[key][k] for k in batch["index"].tolist()]
        assert batch[DEPTH].shape[1:] == (2, 1, SIZE[1], SIZE[0])
        assert batch[f"{DEPTH}_is_pad"].dtype == torch.bool
        assert len(batch["task"]) == len(batch["index"])
    assert seen == list(range(len(data)))


# -- installation, in a package that only looks like LeRobot ------------------------------------


class TheirError(ValueError):
    """What LeRobot raises."""


def _their_function(video_path, timestamps, tolerance_s, backend=None):  # type: ignore[no-untyped-def]
    return "theirs"


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """release("0.6.1") is a module like LeRobot's, in a package of that version."""
    modules = {}
    for name in ("lerobot", "lerobot.datasets", "lerobot.datasets.video_utils", "lerobot.reader"):
        modules[name] = types.ModuleType(name)
        monkeypatch.setitem(sys.modules, name, modules[name])
    utils: Any = modules["lerobot.datasets.video_utils"]
    utils.decode_video_frames = _their_function
    utils.FrameTimestampError = TheirError
    modules["lerobot.reader"].decode_video_frames = _their_function  # type: ignore[attr-defined]
    known = importlib.metadata.version

    def make(version: str) -> Any:
        monkeypatch.setattr(
            "sparseframes.lerobot._install.version",
            lambda name: version if name == "lerobot" else known(name),
        )
        return utils

    yield make
    uninstall()


def test_install_and_uninstall(release: Callable[[str], Any], clip: Clip) -> None:
    utils, reader = release("0.6.1"), sys.modules["lerobot.reader"]
    assert not installed()
    install()
    install()
    assert installed()
    assert reader.decode_video_frames is utils.decode_video_frames  # type: ignore[attr-defined]
    got = utils.decode_video_frames(clip("pyramid.mp4"), [0.5], 1e-4, "pyav", return_uint8=True)
    assert media.number_of(got[0].permute(1, 2, 0).numpy()) == 15
    with pytest.raises(TheirError, match="violate the tolerance") as caught:
        utils.decode_video_frames(clip("pyramid.mp4"), [0.51], 1e-4)
    assert isinstance(caught.value.__cause__, FrameTimestampError)
    # a module that is imported meanwhile has the new one
    late: Any = types.ModuleType("lerobot.late")
    late.decode_video_frames = utils.decode_video_frames
    sys.modules["lerobot.late"] = late
    try:
        uninstall()
        uninstall()
        assert not installed()
        for module in (utils, reader, late):
            assert module.decode_video_frames is _their_function
    finally:
        del sys.modules["lerobot.late"]


@pytest.mark.parametrize("version", ["0.3.3", "0.7.0", "1.0", "0.60.1", "0.6rc1"])
def test_unknown_releases_are_refused(release: Callable[[str], Any], version: str) -> None:
    utils = release(version)
    with pytest.raises(VersionError, match=rf"lerobot {version} is not known: install\(\) takes"):
        install()
    assert utils.decode_video_frames is _their_function


def test_changed_builds_are_refused(release: Callable[[str], Any]) -> None:
    utils = release("0.6.1")
    utils.decode_video_frames = lambda video_path, timestamps, device: None
    with pytest.raises(VersionError, match="takes video_path, timestamps, device, which is not"):
        install()
    del utils.decode_video_frames
    with pytest.raises(VersionError, match=r"has no lerobot.datasets.video_utils"):
        install()


def test_nothing_to_install_into(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("sparseframes.lerobot._install.version", missing)
    with pytest.raises(VersionError, match="lerobot is not installed"):
        install()
    uninstall()
