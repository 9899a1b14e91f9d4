"""The program's bitstream filter sparse_select: it gives what the filter select gives, for less."""

from __future__ import annotations

import itertools
import os
import random
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from encoder_program import why_missing

from sparseframes import VideoDecoder, transcode
from sparseframes.encode import find_program

Clip = Callable[[str], str]
Frame = tuple[str, str]
SMALL, EVERY = 150_000, 4  # bytes of a file in the sample
CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "realworld"

# slices of these are damaged, which only their reconstruction shows
DAMAGED = {"decord_corrupted.mp4"}
# select counts anew where the size changes, since the filter graph is made anew
SEVERAL_SIZES = {"vkcts_clip-c.mp4"}


def _missing() -> str | None:
    missing = why_missing()
    if missing is not None:
        return missing
    program = find_program()
    command = [str(program), "-hide_banner", "-bsfs"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return None if "sparse_select" in listed.split() else f"{program} has no sparse_select"


MISSING = _missing()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

CLIPS = [
    *("pyramid.mp4", "onekey.mp4", "nobframes.mp4", "opengop.mp4", "slices.mp4", "large.mp4"),
    *("intra_refresh.mp4", "mbaff.mp4", "hevc_opengop.mp4", "hevc_radl.mp4", "oneframe.mp4"),
    *("vfr.mp4", "noedit.mp4", "editlist.mp4", "duppts.mkv", "pyramid.ts", "pyramid.mkv"),
    *("pyramid.264", "fragmented.mp4", "rotate90.mp4", "h264_10bit.mp4", "hevc_10bit.mp4"),
    *("h264_444_129x97.mp4", "h264_gray.mp4", "nofirstkey.ts", "cut.mkv"),
]


def decode(path: str, *options: str, tail: Sequence[str] = ()) -> tuple[list[Frame], int, str]:
    """Time and hash of each frame, the exit status, and what the program said.

    With one thread, since what takes the place of damaged slices depends on their number, and
    each frame in its own size, not in that of the first one put out.
    """
    command = [
        *(str(find_program()), "-hide_banner", "-nostdin", "-v", "verbose", "-threads", "1"),
        *(*options, "-i", path, "-map", "0:v:0", "-fps_mode", "passthrough", "-noautoscale"),
        *(*tail, "-f", "framemd5", "-"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    lines = [line.split(",") for line in done.stdout.splitlines() if line[:1].isdigit()]
    return [(line[2].strip(), line[5].strip()) for line in lines], done.returncode, done.stderr


def pictures_of(frames: Sequence[Frame]) -> list[str]:
    return [digest for _, digest in frames]


def by_select(path: str, expression: str) -> list[Frame]:
    frames, code, said = decode(path, tail=("-vf", f"select='{expression}'"))
    assert code == 0, said
    return frames


def by_sparse_select(path: str, options: str) -> tuple[list[Frame], int, int]:
    """The frames, and how many pictures were needed and really reconstructed."""
    frames, code, said = decode(path, "-bsf:v", f"sparse_select={options}")
    assert code == 0, said
    needed, spare = counts(said)
    # the decoder counts by itself, in packets; it says nothing when it skipped none
    found = re.search(r"(\d+) packets were reconstructed, (\d+) were not", said)
    assert found is not None or spare == 0
    return frames, needed, int(found[1]) if found else needed


def counts(said: str) -> tuple[int, int]:
    found = re.search(r"for which (\d+) pictures are needed and (\d+) are not", said)
    assert found is not None, said
    return int(found[1]), int(found[2])


def in_select(indices: Sequence[int]) -> str:
    return "+".join(f"eq(n,{k})" for k in indices)


def in_sparse_select(indices: Sequence[int]) -> str:
    return "frames=" + "+".join(map(str, indices))


def sets_of(count: int, seed: int) -> list[list[int]]:
    """Some sets of frames of a file: single ones, the ends, neighbours, a spread."""
    chosen = random.Random(seed)
    sets = [[chosen.randrange(count)], sorted({0, count - 1})]
    start = chosen.randrange(count)
    sets.append([k for k in range(start, start + 3) if k < count])
    sets.append(sorted(chosen.sample(range(count), min(count, 5))))
    return sets


# -- the same frames ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLIPS)
def test_equals_select(clip: Clip, name: str) -> None:
    path = clip(name)
    everything, _, _ = decode(path)
    for indices in sets_of(len(everything), seed=len(name)):
        frames, needed, reconstructed = by_sparse_select(path, in_sparse_select(indices))
        wanted = [everything[k] for k in indices]
        assert pictures_of(frames) == pictures_of(wanted)
        # without times, they are counted from the frames that are put out
        assert frames == wanted or name.endswith(".264")
        assert reconstructed >= needed
    # the last set by select itself
    assert by_select(path, in_select(indices)) == wanted


@pytest.mark.parametrize("name", ["pyramid.mp4", "opengop.mp4", "hevc_opengop.mp4", "mbaff.mp4"])
def test_step_and_key_frames(clip: Clip, name: str) -> None:
    path = clip(name)
    everything, _, _ = decode(path)
    frames, _, _ = by_sparse_select(path, "step=7")
    assert frames == everything[::7] == by_select(path, "not(mod(n,7))")
    keys, needed, _ = by_sparse_select(path, "keyframes=1")
    assert keys == by_select(path, "key")
    assert 2 <= len(keys) <= needed < len(everything)
    both, _, _ = by_sparse_select(path, "step=40:frames=3+41")
    assert both == [everything[k] for k in sorted({*range(0, len(everything), 40), 3, 41})]
    # in any order, each once
    again, _, _ = by_sparse_select(path, "frames=41+3+41")
    assert again == [everything[3], everything[41]]


@pytest.mark.parametrize(
    "name", ["pyramid.mp4", "onekey.mp4", "nobframes.mp4", "slices.mp4", "hevc_opengop.mp4"]
)
def test_reconstructs_the_closure_alone(clip: Clip, name: str) -> None:
    with VideoDecoder(clip(name)) as decoder:
        for indices in sets_of(len(decoder), seed=3):
            planned = len(decoder.plan(indices).reconstruct)
            _, needed, reconstructed = by_sparse_select(clip(name), in_sparse_select(indices))
            assert needed == reconstructed == planned


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_ddra_costs_three(clip: Clip, tmp_path: Path, codec: str) -> None:
    target = tmp_path / "ddra.mp4"
    transcode(clip("pyramid.mp4"), target, codec, 32, preset="ultrafast", threads=1)
    everything, _, _ = decode(str(target))
    frames, needed, reconstructed = by_sparse_select(str(target), "frames=40+50")
    assert frames == [everything[40], everything[50]]
    assert needed == reconstructed == 4


def test_pictures(clip: Clip, tmp_path: Path) -> None:
    command = [
        *(str(find_program()), "-v", "error", "-nostdin"),
        *("-bsf:v", "sparse_select=frames='10+25+26'", "-i", clip("pyramid.mp4")),
        *("-fps_mode", "passthrough", str(tmp_path / "out_%03d.png")),
    ]
    subprocess.run(command, check=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"out_00{k}.png" for k in (1, 2, 3)]


def corpus() -> list[Path]:
    """A sample, or all with SPARSEFRAMES_CORPUS=all."""
    found = []
    for line in (CORPUS / "MANIFEST.tsv").read_text().splitlines()[1:] if CORPUS.is_dir() else []:
        name, _, _, codec, *_ = line.split("\t")
        if codec in ("h264", "hevc") and (CORPUS / name).exists():
            found.append(CORPUS / name)
    if os.environ.get("SPARSEFRAMES_CORPUS") == "all":
        return found
    return [path for path in found if path.stat().st_size < SMALL][::EVERY]


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"there is no {CORPUS}")
@pytest.mark.parametrize("path", corpus(), ids=lambda path: path.name)
def test_corpus(path: Path) -> None:
    everything, code, said = decode(str(path))
    if code != 0 or not everything:
        pytest.skip(f"a linear decode fails: {said.splitlines()[-1]}")
    times = [int(time) for time, _ in everything]
    grow = all(first < second for first, second in itertools.pairwise(times))
    options = {
        in_sparse_select(indices): [everything[k] for k in indices]
        for indices in sets_of(len(everything), seed=len(path.name))
    }
    options["step=13"] = everything[::13]
    options["keyframes=1"] = by_select(str(path), "key")
    for text, wanted in options.items():
        frames, code, said = decode(str(path), "-bsf:v", f"sparse_select={text}")
        if code != 0 and path.name in DAMAGED:
            assert "exact" in said
            continue
        assert code == 0, said
        assert pictures_of(frames) == pictures_of(wanted), text
        # where times don't grow, they are guessed from those of the frames that are put out
        assert frames == wanted or not grow, text
    if path.name in SEVERAL_SIZES:
        return
    # the filter itself, on the last set
    indices = sets_of(len(everything), seed=len(path.name))[-1]
    assert by_select(str(path), in_select(indices)) == [everything[k] for k in indices]


# -- what can't be had --------------------------------------------------------------------------


def test_damage_is_no_frame(clip: Clip) -> None:
    path = clip("bitflip.mp4")
    everything, _, _ = decode(path)
    # each picture references the one before: all up to the damage, in its group, can be had
    frames, _, _ = by_sparse_select(path, "frames=31+49")
    assert frames == [everything[31], everything[49]]
    for indices in ([50], [55], [31, 59]):
        frames, code, said = decode(path, "-bsf:v", f"sparse_select={in_sparse_select(indices)}")
        assert code != 0
        assert "Damaged data" in said
        assert everything[50] not in frames
    frames, _, _ = by_sparse_select(path, "frames=60+75")
    assert frames == [everything[60], everything[75]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("frames=3+x", "numbers from 0, joined by +"),
        ("frames=", "numbers from 0, joined by +"),
        ("frames=-1", "numbers from 0, joined by +"),
        ("frames=1+99999999999", "numbers from 0, joined by +"),
        ("keyframes=0", "has to be given"),
        ("frames=3+1000", "There is no frame 1000"),
    ],
)
def test_bad_options(clip: Clip, options: str, words: str) -> None:
    _, code, said = decode(clip("pyramid.mp4"), "-bsf:v", f"sparse_select={options}")
    assert code != 0
    assert words in said


def test_streams_that_are_not_used(clip: Clip) -> None:
    # the filter is on both videos of the file, of which one is decoded
    path = clip("twovideo.mp4")
    everything, _, _ = decode(path)
    frames, _, _ = by_sparse_select(path, "frames=3+20")
    assert frames == [everything[3], everything[20]]


def test_other_codecs_are_refused(clip: Clip) -> None:
    _, code, said = decode(clip("mpeg4.avi"), "-bsf:v", "sparse_select=step=2")
    assert code != 0
    assert "not supported by the bitstream filter 'sparse_select'" in said
