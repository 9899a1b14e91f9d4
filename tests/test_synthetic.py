"""Streams for what public ones lack, bit by bit: each frame is exact, or the linear decode errs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import av
import media
import pytest
from synthetic import container_cases, h264_cases, hevc_cases
from synthetic.case import Case
from synthetic.random_streams import random_h264, random_hevc

import sparseframes
from sparseframes import VideoDecoder
from sparseframes.validation.reference import Reference, digest, own_reference, pyav_reference

CASES = [*h264_cases.CASES, *hevc_cases.CASES]
SEEDS = 8


def linear(path: Path) -> Reference:
    """The library's own linear decode."""
    with VideoDecoder(path, pixel_format="native") as decoder, decoder._use() as reader:
        return own_reference(reader, "native", decoder._orientation)


def orders(count: int) -> list[list[int]]:
    """Every frame backwards, and in any order."""
    shuffled = random.Random(count).sample(range(count), count)
    return [list(range(count))[::-1], shuffled]


def check(path: Path, expected: Reference, *, clean: bool, lazy: bool = True) -> None:
    """Every frame by itself, in several orders on one decoder, by both kinds of index."""
    for index in ("whole", "lazy") if lazy else ("whole",):
        options: Any = {"pixel_format": "native", "index": index}
        for order in orders(len(expected.digests)):
            # what other decoders have left would hide what this one gets wrong
            sparseframes.clear_cache()
            with VideoDecoder(path, **options) as decoder:
                assert len(decoder) == len(expected.digests)
                for number in order:
                    try:
                        got = digest(list(decoder[number]))
                    except sparseframes.DecodeError:
                        assert not clean, (index, number)
                        continue
                    assert got == expected.digests[number], (index, number)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case, tmp_path: Path) -> None:
    assert case.is_odd()
    path = tmp_path / (case.name + case.suffix)
    path.write_bytes(case.make())
    expected = linear(path)
    assert len(expected.digests) > 4
    if case.clean:
        assert expected.damaged_from is None
    if case.versions:
        assert pyav_reference(str(path)).digests == expected.digests
    check(path, expected, clean=case.clean)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case_in_mp4(case: Case, tmp_path: Path) -> None:
    # with a sample table, whose times follow the decode order
    def stamp(number: int, packet: Any) -> Any:
        packet.pts = packet.dts = number
        packet.time_base = media.Fraction(1, media.FPS)
        return packet

    path = tmp_path / "a.mp4"
    source = tmp_path / (case.name + case.suffix)
    source.write_bytes(case.make())
    media.remux(source, path, stamp)
    expected = linear(path)
    # a lazy index numbers frames by the table: it can't know of samples that show nothing
    with av.open(str(path)) as container:
        lazy = container.streams.video[0].frames == len(expected.digests)
    check(path, expected, clean=False, lazy=lazy)


# 190: fields after an MBAFF frame, whose direct prediction was mapped as from a plain one;
# 83, 213: second fields that predict from their own first one
@pytest.mark.parametrize("seed", [*range(SEEDS), 83, 190, 213])
@pytest.mark.parametrize("make", [random_h264, random_hevc])
def test_random_structure(make: Any, seed: int, tmp_path: Path) -> None:
    path = tmp_path / ("a" + {random_h264: ".264", random_hevc: ".hevc"}[make])
    path.write_bytes(make(seed))
    expected = linear(path)
    assert len(expected.digests) > 8
    assert expected.damaged_from is None
    assert pyav_reference(str(path)).digests == expected.digests
    check(path, expected, clean=False)


@pytest.mark.parametrize("case", container_cases.CASES, ids=lambda case: case.name)
def test_container(case: Any, folder: Path) -> None:
    path = folder / case.name
    case.make(path, folder)
    assert case.odd(path)
    expected = linear(path)
    assert len(expected.digests) > 4
    if case.clean:
        assert expected.damaged_from is None
        assert pyav_reference(str(path)).digests == expected.digests
    check(path, expected, clean=case.clean)
