"""Streams whose frames the sample table numbers: what is called plain is so."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import media
import numpy as np
import pytest

from sparseframes import VideoDecoder

Clip = Callable[[str], str]

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build" / "tests" / "check_plain"
CORPUS = ROOT.parent / "shared" / "corpus"

PLAIN = [
    "pyramid.mp4",
    "onekey.mp4",
    "nobframes.mp4",
    "opengop.mp4",
    "slices.mp4",
    "intra_refresh.mp4",
    "noedit.mp4",
    "vfr.mp4",
    "faststart.mp4",
    "large.mp4",
    "h264_10bit.mp4",
    "h264_gray.mp4",
    "h264_444_129x97.mp4",
    "oneframe.mp4",
    "bitflip.mp4",
    "hevc_opengop.mp4",
    "hevc_radl.mp4",
    "hevc_10bit.mp4",
    "hevc_gray12.mp4",
]
NOT_PLAIN = ["editlist.mp4", "mbaff.mp4"]

# small packets, so that damage meets what the check looks at
SMALL: dict[str, dict[str, Any]] = {
    "pyramid": {"x264-params": "keyint=12:bframes=3:b-pyramid=normal:ref=4:qp=40:scenecut=0"},
    "slices": {"x264-params": "keyint=8:bframes=2:slices=2:cabac=0:qp=40"},
    "weights": {"x264-params": "keyint=24:bframes=2:weightp=2:ref=6:qp=40"},
    "opengop": {"x264-params": "keyint=8:bframes=3:open-gop=1:qp=40:scenecut=0"},
    "hevc": {
        "encoder": "libx265",
        "x265-params": "keyint=12:bframes=3:b-pyramid=1:ref=4:qp=40:scenecut=0:open-gop=0",
    },
    "hevc-opengop": {
        "encoder": "libx265",
        "x265-params": "keyint=8:min-keyint=8:bframes=3:qp=40:scenecut=0:open-gop=1",
    },
    "hevc-slices": {
        "encoder": "libx265",
        "x265-params": "keyint=12:bframes=3:slices=2:qp=40:ctu=16:weightp=1:weightb=1",
    },
    "hevc-repeat": {
        "encoder": "libx265",
        "x265-params": "keyint=8:bframes=3:radl=2:open-gop=0:repeat-headers=1:qp=40",
    },
    "ten": {"x264-params": "keyint=8:bframes=3:qp=50", "pix_fmt": "yuv420p10le"},
}


def check(*words: object, folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """What tests/c/check_plain.c says of files: by name, whether plain, and counts."""
    if not PROGRAM.exists():
        pytest.skip("the C tests are not built")
    run = subprocess.run(
        [PROGRAM, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    found = re.findall(
        r"^(.+): ((?:not )?plain), \d+ variants, (\d+) plain, (\d+)", run.stdout, re.M
    )
    return {
        Path(path).name: {"plain": word == "plain", "variants": int(plain), "decoded": int(decoded)}
        for path, word, plain, decoded in found
    }


def test_plain_streams_are_numbered_as_decoded(clip: Clip) -> None:
    paths = [clip(name) for name in PLAIN + NOT_PLAIN]
    found = check(*paths)
    assert [name for name in PLAIN + NOT_PLAIN if found[name]["plain"]] == PLAIN


def test_corpus() -> None:
    paths = [path for path in sorted(CORPUS.rglob("*")) if path.suffix in (".mp4", ".mov", ".m4v")]
    if not paths:
        pytest.skip("there is no corpus")
    found = check("-l", 0, *paths)
    assert sum(one["plain"] for one in found.values()) > len(found) / 2


@pytest.mark.parametrize("name", SMALL)
def test_damage(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.mp4"
    options = dict(SMALL[name])
    media.encode(
        path, options.pop("encoder", "libx264"), numbers=range(24), size=(64, 48), **options
    )
    found = check("-n", 1500, "-l", 50, path, folder=tmp_path)[path.name]
    assert found["plain"]
    assert found["variants"] > 100 < 1500 - found["variants"]
    assert found["decoded"]


def facts(path: str, index: Any) -> tuple[Any, int]:
    """The table of all frames, and how many packets a decoder has passed over for it."""
    with VideoDecoder(path, index=index) as decoder, decoder._use() as reader:
        return decoder._frame_table(reader).tolist(), reader.stats()["state_only_packets"]


@pytest.mark.parametrize("name", [*PLAIN, *NOT_PLAIN])
def test_all_facts_are_those_of_the_whole_index(clip: Clip, name: str) -> None:
    table, passed = facts(clip(name), "auto")
    expected, all_packets = facts(clip(name), "whole")
    assert table == expected
    assert passed == (1 if name in PLAIN else all_packets)


def test_a_request_passes_over_its_segment_alone(clip: Clip) -> None:
    path = clip("pyramid.mp4")  # an IDR every 30 packets
    with VideoDecoder(path, index="whole") as whole, VideoDecoder(path) as decoder:
        np.testing.assert_array_equal(decoder[70].data, whole[70].data)
        assert decoder.stats.state_only_packets <= 31
        for k in (5, 35, 89, 62, 1):
            np.testing.assert_array_equal(decoder[k].data, whole[k].data)
        plans = decoder.plan([3, 80]), whole.plan([3, 80])
        np.testing.assert_array_equal(plans[0].reconstruct, plans[1].reconstruct)


def test_a_frame_that_is_missing_elsewhere(tmp_path: Path) -> None:
    # No frame comes out for a packet that has no slice, far from the one that is asked for: the
    # numbers of the table are wrong, and a lazy index doesn't see it.
    media.encode(tmp_path / "a.mp4", numbers=range(60), size=(64, 48), bf="0", g="10")

    def edit(number: int, packet: Any) -> Any:
        if number != 15:
            return packet
        data = bytearray(bytes(packet))
        data[4] = data[4] & 0xE0 | 12  # a NAL unit of filler data
        copy = media.av.Packet(bytes(data))
        copy.pts, copy.dts, copy.time_base = packet.pts, packet.dts, packet.time_base
        return copy

    media.remux(tmp_path / "a.mp4", tmp_path / "b.mp4", edit)
    with VideoDecoder(tmp_path / "b.mp4", index="whole") as whole:
        assert len(whole) == 59
        expected = media.number_of(whole[50].data)
    with VideoDecoder(tmp_path / "b.mp4") as decoder:
        assert media.number_of(decoder[50].data) == expected == 51
    with VideoDecoder(tmp_path / "b.mp4", index="lazy") as decoder:
        assert media.number_of(decoder[50].data) == 50


def test_a_table_that_marks_every_packet(clip: Clip) -> None:
    # Without a table of sync samples every one counts as such; the headers know better.
    data = Path(clip("pyramid.mp4")).read_bytes().replace(b"stss", b"free")
    with VideoDecoder(clip("pyramid.mp4")) as other, VideoDecoder(data) as decoder:
        np.testing.assert_array_equal(decoder[70].data, other[70].data)
        assert decoder.stats.state_only_packets <= 31
