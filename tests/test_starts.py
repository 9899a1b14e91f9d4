"""Header passes that begin at an intra picture in the middle of a stream."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import Any

import media
import numpy as np
import pytest
from encoder_program import needs_program

from sparseframes import VideoDecoder, set_cache_budget, transcode

PROGRAM = Path(__file__).resolve().parents[1] / "build" / "tests" / "check_starts"
FRAMES = 60
ANCHORS = range(0, FRAMES, 6)

# by name: options, and the most packets that a frame may take in the mean
X264 = "scenecut=0:b-adapt=0:qp=40:"
X265 = "scenecut=0:b-adapt=0:qp=40:rc-lookahead=12:ctu=16:"
CLIPS: dict[str, tuple[dict[str, Any], float]] = {
    # anchors with a recovery point, and nothing but what lies between two is referenced
    "anchors": ({"x264-params": X264 + "keyint=8:open-gop=1:bframes=7:b-pyramid=0:ref=1"}, 20),
    "anchors-1": ({"x264-params": X264 + "keyint=6:open-gop=1:bframes=0:ref=1"}, 7),
    # pictures that name which reference goes (memory management control operation 1)
    "pyramid": ({"x264-params": X264 + "keyint=8:open-gop=1:bframes=3:b-pyramid=2:ref=3"}, 60),
    "refs": ({"x264-params": X264 + "keyint=250:bframes=2:ref=4", "intra": ANCHORS}, 60),
    "poc2": ({"x264-params": X264 + "keyint=250:bframes=0:ref=1", "intra": ANCHORS}, 9),
    "slices": ({"x264-params": X264 + "keyint=250:bframes=1:slices=3", "intra": ANCHORS}, 60),
    "hevc": (
        {
            "encoder": "libx265",
            "x265-params": X265 + "keyint=250:bframes=5:b-pyramid=0:ref=1",
            "intra": ANCHORS,
        },
        30,
    ),
    "hevc-pyramid": (
        {
            "encoder": "libx265",
            "x265-params": X265 + "keyint=250:bframes=3:b-pyramid=1:ref=3",
            "intra": ANCHORS,
        },
        60,
    ),
    "hevc-open": (
        {"encoder": "libx265", "x265-params": X265 + "keyint=10:open-gop=1:bframes=3:ref=2"},
        25,
    ),
}


def passed_over(*paths: Path) -> list[float]:
    """Packets passed over for a frame, in the mean, if the C program finds nothing amiss."""
    if not PROGRAM.exists():
        pytest.skip("the C tests are not built")
    run = subprocess.run(
        [PROGRAM, *paths], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    means = re.findall(r"^.*: \d+ frames, ([\d.]+) of \d+ packets .*, 0 wrong$", run.stdout, re.M)
    assert len(means) == len(paths)
    return [float(mean) for mean in means]


def compare(path: Path) -> None:
    """Each frame by itself, and by a reader that has been elsewhere, against the whole index; with
    pictures that other passes have left, and without."""
    for budget in (0, 256 << 20):
        compare_with(path, budget)


def compare_with(path: Path, budget: int) -> None:
    """The same with so many bytes of kept pictures."""
    set_cache_budget(0)
    with VideoDecoder(path, index="whole") as whole:
        expected = [whole[k].data for k in range(len(whole))]
    set_cache_budget(budget)
    time.sleep(0.2)  # pictures of a file that was just written aren't shared by readers
    with VideoDecoder(path) as other:
        for k in np.random.default_rng(1).permutation(len(expected)):
            with VideoDecoder(path) as decoder:
                np.testing.assert_array_equal(decoder[int(k)].data, expected[k])
            np.testing.assert_array_equal(other[int(k)].data, expected[k])
    set_cache_budget(256 << 20)


@pytest.mark.parametrize("name", CLIPS)
def test_late_starts(tmp_path: Path, name: str) -> None:
    options, most = dict(CLIPS[name][0]), CLIPS[name][1]
    path = tmp_path / f"{name}.mp4"
    media.encode(
        path, options.pop("encoder", "libx264"), numbers=range(FRAMES), size=(64, 48), **options
    )
    compare(path)
    assert passed_over(path)[0] <= most


@needs_program
@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("idr", [0, 2])
def test_ddra(tmp_path: Path, codec: str, idr: int) -> None:
    source, path = tmp_path / "source.mp4", tmp_path / "ddra.mp4"
    media.encode(source, numbers=range(FRAMES), size=(128, 96), crf="20")
    transcode(source, path, codec, 4, idr=idr, preset="fast", threads=1)
    compare(path)
    assert passed_over(path)[0] <= 12


def test_pictures_of_passes_that_begin_at_different_places(tmp_path: Path) -> None:
    # A pass from a CRA counted POC from that CRA's low bits on, and vectors of a picture that
    # another pass had left were scaled by distances between the two ways of counting.
    path = tmp_path / "long.mp4"
    options = {"x265-params": X265 + "keyint=40:open-gop=1:bframes=3:b-pyramid=1:ref=3"}
    media.encode(path, "libx265", numbers=range(340), size=(64, 48), **options)
    set_cache_budget(0)
    with VideoDecoder(path, index="whole") as whole:
        expected = [whole[k].data for k in range(len(whole))]
    set_cache_budget(256 << 20)
    time.sleep(0.2)
    for mode in ("auto", "lazy", "whole", "auto"):
        for k in np.random.default_rng(2).permutation(range(250, 340))[:40]:
            with VideoDecoder(path, index=mode) as decoder:
                np.testing.assert_array_equal(decoder[int(k)].data, expected[k])
