"""The benchmark: its statistics, its check of frames, and a short run of the whole."""

from __future__ import annotations

import base64
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import media
import numpy as np
import pytest
from bench import arms, report
from bench.arms import ARMS
from bench.bars import Bar, Bars
from bench.clips import Clip
from bench.patterns import PATTERNS, requests
from bench.ratios import Table, combine, fastest, ratio
from bench.reference import Reference, levels
from bench.run import arms_of, plan, worker_of
from bench.worker import digest, thumb

ROOT = Path(__file__).resolve().parent.parent


def pair(ours: list[float], other: list[float]) -> np.ndarray:
    return np.array([ours, other])


def test_a_ratio_is_that_of_the_medians_and_lies_in_its_interval() -> None:
    rng = np.random.default_rng(1)
    ours = rng.lognormal(0, 0.2, 40)
    found = ratio([np.array([ours, 3 * ours])])
    assert found is not None
    # the same requests are drawn for both, so nothing is left to chance
    assert [found.value, found.low, found.high] == pytest.approx([3, 3, 3])
    noisy = ratio([np.array([ours, 3 * rng.lognormal(0, 0.2, 40)])])
    assert noisy is not None
    assert noisy.low < 3 < noisy.high
    assert noisy.low < noisy.value < noisy.high


def test_over_clips_it_is_the_geometric_mean() -> None:
    found = ratio([pair([1, 1], [2, 2]), pair([1, 1], [8, 8])])
    assert found is not None
    assert found.value == pytest.approx(4)
    assert ratio([]) is None


def test_the_quickest_other_counts_clip_by_clip() -> None:
    found = fastest([[pair([1], [5]), pair([1], [2])], [pair([1], [8]), pair([1], [9])], []])
    assert found is not None
    assert found.value == pytest.approx(4)
    assert combine([found, None]) is None


def test_pairs_are_of_the_same_requests() -> None:
    def record(arm: str, request: int, cpu: float, wrong: int = 0) -> dict[str, Any]:
        facts = {"clip": "c", "pattern": "p", "arm": arm, "request": request, "cpu": cpu}
        return {**facts, "verdicts": {"wrong": wrong, "exact": 1}}

    table = Table([record("a", 1, 1.0), record("a", 2, 2.0), record("b", 2, 6.0, 3)])
    found = table.pair("c", "p", "a", "b")
    assert found is not None
    assert found.tolist() == [[2.0], [6.0]]
    assert table.pair("c", "other", "a", "b") is None
    assert table.wrong("c", "b") == 3
    assert table.wrong("c", "a") == 0


def test_bars() -> None:
    assert Bar("more", 1.5, 1.5).met
    assert not Bar("more", 1.4, 1.5).met
    assert Bar("less", 1.4, 1.5, at_most=True).met
    assert not Bar("unknown", None, 1.5, at_most=True).met
    assert not Bar("unknown", float("nan"), 1.5).met


def test_joined_episodes_are_read_as_lerobot_does(clip: Callable[[str], str]) -> None:
    def record(arm: str, cpu: float) -> dict[str, Any]:
        facts = {"clip": "c", "pattern": "window", "arm": arm, "request": 1, "cpu": cpu}
        return {**facts, "verdicts": {"exact": 10}}

    def bar(*records: dict[str, Any]) -> Bar:
        clips = [Clip("c", "lerobot-joined", Path("c"), 16000, "av1")]
        bars = Bars(clips, Table(list(records)), {}).all()
        return next(bar for bar in bars if "joined" in bar.name)

    times = {"sparseframes": 4.0, "sparseframes saved": 1.6, "sparseframes lerobot": 2.0}
    ours = [record(arm, cpu) for arm, cpu in times.items()]
    found = bar(*ours, record("torchcodec exact", 5.0), record("torchcodec approximate", 3.0))
    # against the quicker of the two modes
    assert found.value == pytest.approx(1.5)
    assert found.met
    # and the figures of the other ways stand next to it
    assert "default, which reads all headers first: 0.75 " in found.note
    assert "with a saved index: 1.88 " in found.note
    assert bar(*ours).value is None
    # the quick default doesn't stand in for an arm that wasn't run
    assert bar(record("sparseframes", 1.0), record("torchcodec exact", 5.0)).value is None


@pytest.mark.parametrize("arm", ["sparseframes lerobot", "sparseframes saved"])
@pytest.mark.parametrize("name", ["av1_g2.mp4", "pyramid.mp4"])
def test_arms_give_the_right_frames(clip: Callable[[str], str], arm: str, name: str) -> None:
    path = clip(name)
    reader = arms.make(arm)
    for wanted in ([70, 71, 88], [0], range(40, 43)):
        reader.prepare(path)
        handle = reader.open(path)
        assert [media.number_of(frame) for frame in reader.read(handle, wanted)] == list(wanted)
        pictures = reader.pictures(handle)
        assert pictures is not None
        assert len(wanted) <= pictures < 50
        decoder = handle[0].decoder if arm == "sparseframes lerobot" else handle
        if arm == "sparseframes saved":
            assert decoder.stats.state_only_packets == 0
        else:  # a lazy index reads no more headers than from a key frame on
            assert 0 < decoder.stats.state_only_packets < 45
        reader.close(handle)
    if reader.folder is not None:
        reader.folder.cleanup()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_requests_are_seeded_ascending_and_inside(pattern: str) -> None:
    for frames in (1, 7, 120, 400):
        chosen = requests(pattern, frames, 5, (1, 2))
        assert chosen == requests(pattern, frames, 5, (1, 2))
        for indices in chosen:
            assert indices == sorted(set(indices))
            assert indices[0] >= 0
            assert indices[-1] < frames
    assert requests("window", 400, 5, (1, 2)) != requests("window", 400, 5, (1, 3))


def facts_of(frame: np.ndarray) -> dict[str, Any]:
    small = thumb(frame)
    data = base64.b64encode(small.tobytes()).decode()
    return {"hash": digest(frame), "shape": small.shape, "thumb": data}


def test_wrong_frames_are_told_from_other_colours() -> None:
    rng = np.random.default_rng(1)
    frames = [rng.integers(10, 240, (48, 80, 3), np.uint8) for _ in range(4)]
    reference = Reference(
        [digest(frame) for frame in frames], np.stack([levels(thumb(frame)) for frame in frames])
    )
    assert reference.judge(2, facts_of(frames[2])) == "exact"
    assert reference.judge(2, facts_of(frames[2] + 1)) == "right"
    assert reference.judge(2, facts_of(frames[1])) == "wrong"
    assert reference.judge(2, facts_of(frames[2][:32])) == "wrong"
    assert reference.judge(2, {"hash": digest(frames[1])}) == "unseen"


def test_every_arm_has_a_worker() -> None:
    clips = [Clip("a", "native-h264", Path("a"), 100, "h264"), Clip("b", "lerobot", Path("b"))]
    clips += [Clip("c", "jpeg", Path("c"), 10)]
    clips[1].codec, clips[1].frames = "av1", 100
    clips += [Clip("d", "lerobot-joined", Path("d"), 10), Clip("e", "av1-long", Path("e"), 10)]
    clips[3].codec = clips[4].codec = "av1"
    assert "sparseframes lerobot" in arms_of(clips[1])
    for number in (1, 3, 4):
        assert "sparseframes saved" in arms_of(clips[number])
    assert "sparseframes lerobot" in arms_of(clips[3])
    for clip in clips:
        for arm in arms_of(clip):
            assert worker_of(arm)[0] in ARMS
    blocks = plan(clips, list(PATTERNS), ["sparseframes", "pyav", "jpeg"], 2, 3, 1)
    assert blocks == plan(clips, list(PATTERNS), ["sparseframes", "pyav", "jpeg"], 2, 3, 1)
    assert len({block.key for block in blocks}) == len(blocks)
    assert {block.number for block in blocks[: len(blocks) // 2]} == {0}


def test_rounding_leaves_no_infinities() -> None:
    assert report.rounded({"a": [1.23456789, float("inf"), "x", 3]}) == {
        "a": [1.2346, None, "x", 3]
    }


def test_a_short_run(tmp_path: Path) -> None:
    pytest.importorskip("click", reason="click comes with the extra 'cli'")
    command = [
        *(sys.executable, "-m", "bench", "--quick", "--no-peers"),
        *("--folder", str(tmp_path / "work"), "--output", str(tmp_path / "out")),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert set(result["frames"]) >= {"sparseframes", "sparseframes warm", "pyav"}
    for arm, counts in result["frames"].items():
        assert counts["wrong"] == 0
        if arm.startswith("sparseframes"):
            assert counts["exact"] > 0
            assert counts["right"] == counts["unseen"] == 0
    for bar in result["bars"].values():
        assert {"value", "goal", "met"} <= bar.keys()
    native = result["bars"]["native H.264, window: fastest peer / cold"]
    assert native["value"] > 0
    for clip in result["clips"]:
        if clip["group"] == "native-h264":
            cell = result["arms"][clip["name"]]["single"]["sparseframes"]
            assert cell["pictures"] >= 1
            assert cell["bytes_read"] > 0
    page = (tmp_path / "out" / "benchmarks.md").read_text()
    assert page.count(report.BEGIN) == page.count(report.END) == 1
    if importlib.util.find_spec("matplotlib"):  # it comes with the extra "bench"
        for name in ("amplification.svg", "throughput.svg"):
            assert (tmp_path / "out" / name).stat().st_size > 1000
    # a second run has nothing left to measure, and keeps what others wrote on the page
    records = next((tmp_path / "work" / "runs").glob("*/records.jsonl"))
    before = records.read_bytes()
    edited = tmp_path / "out" / "benchmarks.md"
    edited.write_text("By hand.\n\n" + page)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert records.read_bytes() == before
    assert edited.read_text().startswith("By hand.\n\n")
    assert edited.read_text().count(report.BEGIN) == 1
