"""Data sets encoded again: what `convert` makes of them, and what it refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="data sets are read with pyarrow, which is not installed")

import media
from encoder_program import needs_program
from lerobot_data import DEPTH, FPS, TOP, WRIST, Made, encode, make_dataset, pyav_frames

from sparseframes import check_ddra
from sparseframes.cli._app import run
from sparseframes.encode import EncodeError
from sparseframes.errors import ArgumentError
from sparseframes.lerobot import LeRobotEpisodes, convert
from sparseframes.lerobot import _convert as convert_module
from sparseframes.lerobot._verify import frame_times, same_times

Clip = Callable[[str], str]
QUICK: dict[str, Any] = {"period": 8, "preset": "ultrafast", "threads": 1}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A data set of two cameras, as LeRobot encodes them, and one of depth."""
    made = make_dataset(tmp_path_factory.mktemp("convert") / "dataset", "libsvtav1", depth=True)
    (made.root / ".cache").mkdir()
    (made.root / ".cache/download").write_text("a record")
    return made


def _videos(root: Path) -> list[Path]:
    return sorted(path.relative_to(root) for path in root.glob("videos/*/*/*"))


@needs_program
@pytest.mark.parametrize(("codec", "jobs"), [("hevc", 2), ("h264", 1)])
def test_convert(made: Made, tmp_path: Path, codec: str, jobs: int) -> None:
    dest = tmp_path / "new"
    seen: list[float] = []
    result = convert(
        made.root,
        dest,
        codec=codec,
        jobs=jobs,
        progress=lambda share, _: seen.append(share),
        **QUICK,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert len(result.videos) == 4
    assert result.resumed == 0
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    # all files, but for records of downloads
    names = {p.relative_to(made.root) for p in made.root.rglob("*") if p.is_file()}
    copied = {p.relative_to(dest) for p in dest.rglob("*") if p.is_file()}
    assert names - copied == {Path(".cache/download")}
    assert not copied - names
    assert result.copied == len(copied) - 4 - 1

    for video in _videos(made.root):
        old, new = made.root / video, dest / video
        if DEPTH in video.parts:
            assert new.read_bytes() == old.read_bytes()
            continue
        report = check_ddra(new)
        assert report.ok
        assert report.codec == codec
        assert report.longest_interval <= 8
        before, after = pyav_frames(old), pyav_frames(new)
        assert [media.number_of(f) for f in after] == [media.number_of(f) for f in before]
        assert np.allclose(frame_times(new), np.arange(len(after)) / FPS, atol=1e-9)

    info = json.loads((dest / "meta/info.json").read_text())
    for key in (TOP, WRIST):
        facts = info["features"][key]["info"]
        assert facts["video.codec"] == codec
        assert facts["video.pix_fmt"] == "yuv420p"
        assert (facts["video.height"], facts["video.width"]) == (96, 128)
        assert (facts["video.g"], facts["video.preset"]) == (8, "ultrafast")
        assert facts["video.crf"] == {"hevc": 18, "h264": 21}[codec]
        assert facts["video.fps"] == FPS
        assert facts["has_audio"] is False
    old_info = json.loads((made.root / "meta/info.json").read_text())
    assert info["features"][DEPTH] == old_info["features"][DEPTH]
    assert {k: v for k, v in info.items() if k != "features"} == {
        k: v for k, v in old_info.items() if k != "features"
    }

    data = LeRobotEpisodes(dest, delta_timestamps={WRIST: [-1 / FPS, 0.0]})
    for k in (0, 11, 12, 20, 21, 27):
        sample = data[k]
        assert media.number_of(sample[TOP].transpose(1, 2, 0)) == made.numbers[TOP][k]
        assert media.number_of(sample[WRIST][1].transpose(1, 2, 0)) == made.numbers[WRIST][k]


@needs_program
def test_resume(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dest, work = tmp_path / "new", tmp_path / ".new.sparseframes-part"
    real = convert_module.transcode
    done: list[Path] = []

    def breaking(source: Any, *args: Any, **options: Any) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(source)
        return real(source, *args, **options)

    monkeypatch.setattr(convert_module, "transcode", breaking)
    with pytest.raises(KeyboardInterrupt):
        convert(made.root, dest, **QUICK)
    assert not dest.exists()
    finished = [p.relative_to(work) for p in work.rglob("*.mp4")]
    assert len(finished) == 2
    assert not list(work.rglob(".*.mp4"))

    monkeypatch.setattr(convert_module, "transcode", real)
    with pytest.raises(EncodeError, match="was left by an earlier run: resume goes on"):
        convert(made.root, dest, **QUICK)
    with pytest.raises(EncodeError, match="was left by a run with other settings"):
        convert(made.root, dest, **{**QUICK, "period": 9}, resume=True)
    before = {path: (work / path).stat().st_mtime_ns for path in finished}
    result = convert(made.root, dest, **QUICK, resume=True)
    assert result.resumed == 2
    assert len(result.videos) == 2
    assert {path: (dest / path).stat().st_mtime_ns for path in finished} == before
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert len(LeRobotEpisodes(dest)) == 28


@needs_program
def test_other_frames_are_found(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = convert_module.transcode

    def shorter(source: Any, target: Any, *args: Any, **options: Any) -> Any:
        other = tmp_path / "other.mp4"
        encode(other, [1, 2, 3], "libx264", {})
        return real(other, target, *args, **options)

    monkeypatch.setattr(convert_module, "transcode", shorter)
    with pytest.raises(EncodeError, match=r"has 3 frames and not \d+ \(4 of 4 videos failed\)"):
        convert(made.root, tmp_path / "new", **QUICK)
    assert not list(tmp_path.rglob("*/videos/*/*/*.mp4"))


def test_times_are_compared(clip: Clip) -> None:
    same_times(Path(clip("pyramid.mp4")), Path(clip("onekey.mp4")))
    with pytest.raises(EncodeError, match="the encoded file has 1 frames and not 90"):
        same_times(Path(clip("pyramid.mp4")), Path(clip("oneframe.mp4")))
    with pytest.raises(EncodeError, match=r"frame 1 is at 0.06\d+ s .* and not at 0.03"):
        same_times(Path(clip("pyramid.mp4")), Path(clip("vfr.mp4")))


@needs_program
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"codec": "av1"}, ArgumentError, "codec must be one of"),
        ({"period": 1}, ArgumentError, "period must be"),
        ({"jobs": 0}, ArgumentError, "jobs must be an integer from 1"),
        ({"resume": True, "restart": True}, ArgumentError, "contradict"),
    ],
)
def test_bad_settings(
    made: Made, tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        convert(made.root, tmp_path / "new", **options)
    assert not list(tmp_path.iterdir())


@needs_program
def test_bad_folders(made: Made, tmp_path: Path) -> None:
    with pytest.raises(EncodeError, match="can't be converted into itself"):
        convert(made.root, made.root / "new")
    with pytest.raises(EncodeError, match="can't be converted into itself"):
        convert(made.root, made.root)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("")
    with pytest.raises(EncodeError, match="full exists already"):
        convert(made.root, tmp_path / "full")
    copy = tmp_path / "copy"
    shutil.copytree(made.root, copy)
    shutil.rmtree(copy / "videos" / WRIST)
    with pytest.raises(EncodeError, match=r"wrist.*there are no such videos"):
        convert(copy, tmp_path / "new")


@needs_program
def test_command(made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = str(tmp_path / "new")
    options = ["--codec", "h264", "--preset", "ultrafast", "--threads", "1", "--jobs", "2"]
    arguments = ["lerobot", "convert", str(made.root), new, *options]
    assert run([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [video["frames"] for video in told["videos"]] == [21, 7, 21, 7]
    assert run(arguments) == 1
    assert capsys.readouterr().err == f"sparseframes: {new} exists already\n"
    shutil.rmtree(new)
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert f"videos/{TOP}/chunk-000/file-000.mp4" in out
    assert f"{new}: 4 videos, " in out
    assert "other files copied" in out
    assert run(["lerobot", "convert", str(tmp_path), str(tmp_path / "x")]) == 1
    assert "info.json: No such file" in capsys.readouterr().err


@needs_program
def test_terminated(made: Made, tmp_path: Path) -> None:
    # the slowest there is, so that it is at work when it is told to end
    command = [
        *(sys.executable, "-m", "sparseframes.cli", "lerobot", "convert", str(made.root)),
        *(str(tmp_path / "new"), "--preset", "placebo", "--threads", "1"),
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    work = tmp_path / ".new.sparseframes-part"
    while not list(work.glob("videos/*/*/.*")) and process.poll() is None:
        time.sleep(0.05)
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) in ((130, "sparseframes: interrupted"), (0, ""))
    if process.returncode:
        assert not list(work.glob("videos/*/*/.*"))
