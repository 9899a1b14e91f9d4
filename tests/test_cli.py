"""The command: what it prints, and how it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import media
import numpy as np
import pytest
from PIL import Image

import sparseframes
from sparseframes import VideoDecoder
from sparseframes.cli._app import run
from sparseframes.cli._clips import CLIPS
from sparseframes.cli._common import Failure, parse_frames
from sparseframes.cli._validate import expand

Clip = Callable[[str], str]
Call = Callable[..., Any]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """call(argument, ...) runs the command; returns its status, stdout and stderr."""

    def run_it(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status = run([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return run_it


@pytest.fixture
def call_json(call: Call) -> Call:
    """As call, for what succeeds in printing JSON; returns that."""

    def run_it(*arguments: object) -> Any:
        status, out, err = call(*arguments, "--json")
        assert (status, err) == (0, "")
        return json.loads(out)

    return run_it


@pytest.mark.parametrize(
    ("spec", "indices"),
    [
        ("3,50,7", [3, 50, 7]),
        ("-1, 4", [-1, 4]),
        ("10:50:15", [10, 25, 40]),
        ("97:,:3", [97, 98, 99, 0, 1, 2]),
        ("5,::50", [5, 0, 50]),
        ("-3:", [97, 98, 99]),
        ("4:1:-2", [4, 2]),
    ],
)
def test_frame_lists(spec: str, indices: list[int]) -> None:
    assert parse_frames(spec, lambda: 100) == indices


@pytest.mark.parametrize("spec", ["", "a", "1,,2", "1:2:0", "1:2:3:4", "1.5", "200:"])
def test_bad_frame_lists(spec: str) -> None:
    with pytest.raises(Failure):
        parse_frames(spec, lambda: 100)


def test_info(call: Call, call_json: Call, clip: Clip) -> None:
    facts = call_json("info", clip("pyramid.mp4"), clip("rotate90.mp4"))
    assert [item["num_frames"] for item in facts] == [90, 90]
    assert [item["rotation"] for item in facts] == [None, -90]
    assert facts[0]["codec"] == "h264"
    assert facts[0]["key_frames"] == 3
    status, out, err = call("info", clip("pyramid.mp4"), clip("text.mp4"))
    assert status == 1
    assert "128x96" in out
    assert err.count("\n") == 1
    assert "text.mp4" in err


def test_info_of_a_file_cut_off(call: Call, clip: Clip, tmp_path: Path) -> None:
    whole = Path(clip("faststart.mp4"))
    data = whole.read_bytes()
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(data[: len(data) // 2])
    with VideoDecoder(cut) as decoder:
        left = len(decoder)
    assert 20 < left < 70
    _, out, _ = call("info", cut)
    assert f"{left} (the container tells of 90)" in out
    _, out, _ = call("info", whole)
    assert "tells of" not in out


def test_names_that_the_terminal_cannot_show(clip: Clip, tmp_path: Path) -> None:
    path = tmp_path / "clip_\u00fc.mp4"
    path.write_bytes(Path(clip("oneframe.mp4")).read_bytes())
    command = [sys.executable, "-m", "sparseframes.cli", "info", str(path)]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, check=True, env=ascii_only)
    assert b"clip_\\xfc.mp4" in done.stdout
    assert not done.stderr


def test_plan(call: Call, call_json: Call, clip: Clip) -> None:
    facts = call_json("plan", clip("pyramid.mp4"), "--frames", "3,50,7")
    assert facts["targets"] == [3, 7, 50]
    assert [item["picture"] for item in facts["pictures"]] == facts["reconstruct"]
    assert sorted(item["frame"] for item in facts["pictures"] if item["target"]) == [3, 7, 50]
    assert all(item["type"] in "IPB" for item in facts["pictures"])
    assert facts["amplification"] == pytest.approx(len(facts["reconstruct"]) / 3)
    status, out, _ = call("plan", clip("pyramid.mp4"), "--frames", "30")
    assert status == 0
    assert "amplification 1.00" in out


def test_frames(call: Call, call_json: Call, clip: Clip, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    written = call_json("frames", clip("pyramid.mp4"), "--frames", "50,3,50,-1", "-o", folder)
    assert [item["index"] for item in written["frames"]] == [50, 3, 89]
    with VideoDecoder(clip("pyramid.mp4")) as decoder:
        for item in written["frames"]:
            with Image.open(item["path"]) as image:
                np.testing.assert_array_equal(np.asarray(image), decoder[item["index"]])
    assert len(list(folder.iterdir())) == 3
    status, out, _ = call("frames", clip("pyramid.mp4"), "--frames", "0:40", "-o", folder, "--gray")
    assert status == 0
    assert len(out.splitlines()) == 40
    with Image.open(out.splitlines()[39]) as image:
        assert image.mode == "L"
        assert media.number_of(np.asarray(image)) == 39


def test_frames_outside_write_nothing(call: Call, clip: Clip, tmp_path: Path) -> None:
    status, _, err = call("frames", clip("pyramid.mp4"), "--frames", "3,90", "-o", tmp_path / "o")
    assert status != 0
    assert "90" in err
    assert not (tmp_path / "o").exists()


def test_validate(call: Call, call_json: Call, clip: Clip, tmp_path: Path) -> None:
    for name in ("pyramid.mp4", "hevc_radl.mp4", "bitflip.mp4"):
        (tmp_path / name).symlink_to(clip(name))
    (tmp_path / "notes.txt").write_text("no video")
    (tmp_path / "broken.mp4").write_text("no video either")
    status, out, err = call("validate", tmp_path, "--requests", 18, "--seed", 5, "--json")
    # a file that can't be read is not proved right
    assert status == 2
    assert "broken.mp4" in err
    done = json.loads(out)
    assert [Path(item["file"]).name for item in done["files"]] == [
        "bitflip.mp4",
        "broken.mp4",
        "hevc_radl.mp4",
        "pyramid.mp4",
    ]
    assert done["summary"]["mismatches"] == 0
    assert done["summary"]["exact"] == 3
    assert done["summary"]["pictures_reconstructed"] == done["summary"]["pictures_planned"] > 0
    status, out, _ = call("validate", f"{tmp_path}/*.mp4", "--requests", 3, "--jobs", 2)
    assert status == 2
    assert "3 exact, 1 unreadable" in out
    (tmp_path / "broken.mp4").unlink()
    assert call("validate", tmp_path, "--requests", 3)[0] == 0
    (tmp_path / "broken.mp4").write_text("no video either")
    status, _, err = call("validate", tmp_path / "broken.mp4")
    assert status == 2
    assert "broken.mp4" in err


def test_validate_finds_files(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("a.mp4", "deep/b.264", "deep/er/c.HEVC", "deep/d.txt"):
        (tmp_path / name).touch()
    named, found = expand([str(tmp_path), str(tmp_path / "deep/d.txt"), f"{tmp_path}/*.mp4"])
    assert named == [str(tmp_path / "deep/d.txt")]
    assert [Path(path).name for path in found] == ["a.mp4", "b.264", "c.HEVC", "a.mp4"]
    for nothing in (str(tmp_path / "x.mp4"), str(tmp_path / "*.mov")):
        with pytest.raises(Failure):
            expand([nothing])


def test_demo_on_given_files(call: Call, call_json: Call, clip: Clip) -> None:
    rows = call_json("demo", clip("onekey.mp4"), clip("hevc_opengop.mp4"), "--requests", 3)
    for row in rows:
        assert row["equal"] is True
        assert row["frames"] == 90
        assert row["frames_asked"] == 12
        assert row["pictures_reconstructed"] > 0
        assert row["sparse_ms"] > 0
    status, out, _ = call("demo", clip("pyramid.mp4"), "--requests", 1)
    assert status == 0
    assert "yes" in out


@pytest.mark.slow
def test_demo_makes_its_clips(call: Call, tmp_path: Path) -> None:
    status, out, _ = call("demo", "--requests", 2, "--work-dir", tmp_path)
    assert status == 0
    assert out.count("yes") == len(CLIPS)
    assert len(list(tmp_path.iterdir())) == len(CLIPS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "/nonexistent.mp4", "--frames", "3"],
        ["plan", "FILE"],
        ["plan", "FILE", "--frames", "x"],
        ["plan", "FILE", "--frames", "90"],
        ["frames", "FILE", "--frames", "3"],
        ["frames", "FILE", "--frames", "3", "-o", "FILE"],
        ["frames", "FILE", "--frames", "3", "-o", "/proc/nowhere"],
        ["info"],
        ["info", "--nope"],
        ["nope"],
        ["validate", "/nonexistent.mp4"],
        ["validate", "FILE", "--requests", "0"],
        ["demo", "/nonexistent.mp4"],
    ],
)
def test_bad_input_is_one_line(call: Call, clip: Clip, arguments: list[str]) -> None:
    status, out, err = call(*(clip("pyramid.mp4") if a == "FILE" else a for a in arguments))
    assert status not in (0, None)
    assert out == ""
    assert err.startswith("sparseframes: ")
    assert err.count("\n") == 1


def test_installed_command(clip: Clip) -> None:
    command = Path(sys.executable).with_name("sparseframes")
    if not command.exists():
        pytest.skip("the package is not installed as a command")
    done = subprocess.run(
        [command, "info", clip("pyramid.mp4"), "--json"], capture_output=True, check=True
    )
    assert json.loads(done.stdout)[0]["num_frames"] == 90
    assert done.stderr == b""
    done = subprocess.run([command, "--version"], capture_output=True, check=True, text=True)
    assert sparseframes.__version__ in done.stdout
    assert sparseframes.ffmpeg_version() in done.stdout


def test_missing_extra_is_told() -> None:
    code = "import sys; sys.modules['click'] = None\nfrom sparseframes.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "sparseframes[cli]" in done.stderr
    assert done.stderr.count("\n") == 1


def test_check_ddra_goes_on_after_a_bad_file(
    clip: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.mp4"
    bad.write_text("not a video")
    assert run(["check-ddra", str(bad), clip("pyramid.mp4"), "--json"]) == 1
    output, complaint = capsys.readouterr()
    good, failure = json.loads(output)
    assert good["file"] == clip("pyramid.mp4")
    assert not good["ok"]
    assert failure["file"] == str(bad)
    assert str(bad) in complaint
