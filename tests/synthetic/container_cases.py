"""Odd containers. The comment at the head of each says what is odd about it.

They are made with PyAV's muxers and edits of boxes; that they are odd is seen in their bytes or in
what FFmpeg's demuxer gives.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import media


@dataclass(frozen=True)
class Container:
    """One odd container file.

    Attributes:
        name: of the file.
        make: writes it; gets its path and a folder for inputs that inputs share.
        odd: whether what is odd is in the file.
        clean: every frame has to be had, and versions of FFmpeg agree on it.
    """

    name: str
    make: Callable[[Path, Path], None]
    odd: Callable[[Path], bool]
    clean: bool


CASES: list[Container] = []
Maker = Callable[[Path, Path], None]


def case(name: str, odd: Callable[[Path], bool], *, clean: bool = True) -> Callable[[Maker], Maker]:
    """Add the file that a function makes."""

    def add(function: Maker) -> Maker:
        CASES.append(Container(name, function, odd, clean))
        return function

    return add


def packets(path: Path) -> list[Any]:
    """The packets of the first video stream."""
    with av.open(str(path)) as container:
        return [packet for packet in container.demux(video=0) if packet.size]


def box(data: bytes, kind: bytes) -> int:
    """Where the first box of a kind begins."""
    return data.index(kind) - 4


def edit_start(path: Path) -> int:
    """media_time of the first edit, in the time base of the track."""
    data = path.read_bytes()
    (start,) = struct.unpack(">i", data[box(data, b"elst") + 20 :][:4])
    return start


def with_edit(source: Path, path: Path, change: Callable[[int, int], tuple[int, int]]) -> None:
    """Copy an mp4 with another first edit: change(duration, media_time) gives both anew."""
    data = source.read_bytes()
    at = box(data, b"elst") + 16
    duration, start = struct.unpack(">Ii", data[at : at + 8])
    path.write_bytes(data[:at] + struct.pack(">Ii", *change(duration, start)) + data[at + 8 :])


def ticks(path: Path) -> int:
    """Duration of a frame in the time base of the track."""
    with av.open(str(path)) as container:
        return int(1 / media.FPS / container.streams.video[0].time_base)


def shown(path: Path) -> int:
    """Frames that FFmpeg shows."""
    with av.open(str(path)) as container:
        return sum(1 for _ in container.decode(video=0))


# -- edit lists ---------------------------------------------------------------------------------


@case("edit_in_gop.mp4", lambda path: edit_start(path) > 40 * ticks(path) and shown(path) < 50)
def _edit_in_gop(path: Path, folder: Path) -> None:
    # the edit list begins in the middle of the second of three groups: what comes before in that
    # group is decoded and not shown
    source = media.make("pyramid.mp4", folder)
    frame = ticks(source)
    with_edit(source, path, lambda duration, start: (duration, start + 43 * frame))


@case("edit_open_gop.mp4", lambda path: edit_start(path) > 40 * ticks(path) and shown(path) < 50)
def _edit_open_gop(path: Path, folder: Path) -> None:
    # the edit list begins at a leading picture of an open group
    source = media.make("hevc_opengop.mp4", folder)
    frame = ticks(source)
    with_edit(source, path, lambda duration, start: (duration, start + 46 * frame))


@case("edit_short.mp4", lambda path: shown(path) < 60)
def _edit_short(path: Path, folder: Path) -> None:
    # the edit ends before the media does
    source = media.make("onekey.mp4", folder)
    with_edit(source, path, lambda duration, start: (duration // 2, start))


@case("edit_between.mp4", lambda path: edit_start(path) % ticks(path) != 0)
def _edit_between(path: Path, folder: Path) -> None:
    # the edit list begins between two frames
    source = media.make("pyramid.mp4", folder)
    frame = ticks(source)
    with_edit(source, path, lambda duration, start: (duration, start + 10 * frame + frame // 3))


# -- times --------------------------------------------------------------------------------------


def _stamped(
    source: str, stamp: Callable[[int, Any], Any], **options: str
) -> Callable[[Path, Path], None]:
    def make(path: Path, folder: Path) -> None:
        media.remux(media.make(source, folder), path, stamp, **options)

    return make


def _shift(frames: int) -> Callable[[int, Any], Any]:
    def stamp(_: int, packet: Any) -> Any:
        tick = int(1 / media.FPS / packet.time_base)
        packet.pts += frames * tick
        packet.dts += frames * tick
        return packet

    return stamp


@case("negative_times.mkv", lambda path: packets(path)[0].dts is None or packets(path)[0].dts < 0)
def _negative_mkv(path: Path, folder: Path) -> None:
    # times begin below zero
    _stamped("pyramid.mp4", _shift(-5), avoid_negative_ts="disabled")(path, folder)


@case("negative_times.mp4", lambda path: packets(path)[0].dts < 0)
def _negative_mp4(path: Path, folder: Path) -> None:
    # decoding times begin far below zero, and with an edit list so do the shown ones
    _stamped("pyramid.mp4", _shift(-20), avoid_negative_ts="disabled")(path, folder)


@case("discarded.mp4", lambda path: shown(path) < 90 and len(packets(path)) == 90)
def _discarded(path: Path, folder: Path) -> None:
    # leading frames are marked to be discarded: they come before the edit
    source = media.make("hevc_radl.mp4", folder)
    frame = ticks(source)
    with_edit(source, path, lambda duration, start: (duration, start + 2 * frame))


@case("no_dts.avi", lambda path: len({p.pts - p.dts for p in packets(path)[:40]}) == 1)
def _no_dts(path: Path, folder: Path) -> None:
    # AVI with B pictures: nothing tells when frames are shown
    def stamp(number: int, packet: Any) -> Any:
        packet.pts = packet.dts = number
        packet.time_base = Fraction(1, media.FPS)
        return packet

    with (
        av.open(str(media.make("pyramid.264", folder))) as read,
        av.open(str(path), "w") as container,
    ):
        stream = container.add_stream_from_template(read.streams.video[0])
        for number, packet in enumerate(read.demux(video=0)):
            if packet.size:
                packet.stream = stream
                container.mux(stamp(number, packet))


@case(
    "duplicate_pts.mkv",
    lambda path: len({p.pts for p in packets(path)}) < len(packets(path)) // 2 + 5,
)
def _duplicate_pts(path: Path, folder: Path) -> None:
    # every two frames have one time
    def stamp(_: int, packet: Any) -> Any:
        tick = int(2 / media.FPS / packet.time_base)
        packet.pts = packet.pts // tick * tick
        packet.dts = None
        return packet

    _stamped("nobframes.mp4", stamp)(path, folder)


@case(
    "times_go_back.ts", lambda path: min(p.pts for p in packets(path)[45:]) < packets(path)[0].pts
)
def _times_go_back(path: Path, folder: Path) -> None:
    # two streams of one encoder end to end: times begin again in the middle
    one, two = folder / "back_a.ts", folder / "back_b.ts"
    media.encode(one, numbers=range(45), start=90, **{"x264-params": "keyint=20:bframes=2"})
    media.encode(two, numbers=range(45, 90), **{"x264-params": "keyint=20:bframes=2"})
    path.write_bytes(one.read_bytes() + two.read_bytes())


# -- fragments, joins, missing parts ------------------------------------------------------------


def _without_samples(path: Path) -> bool:
    data = path.read_bytes()
    (count,) = struct.unpack(">I", data[box(data, b"stsz") + 16 :][:4])
    return count == 0 and b"moof" in data and b"mfra" not in data and b"sidx" not in data


@case("fragments.mp4", _without_samples)
def _fragments(path: Path, folder: Path) -> None:
    # fragments of a few frames without a table of the samples or of the fragments
    flags = "empty_moov+default_base_moof+skip_trailer+frag_every_frame"
    media.remux(media.make("hevc_opengop.mp4", folder), path, movflags=flags)


@case("fragments_open_gop.mp4", _without_samples)
def _fragments_open_gop(path: Path, folder: Path) -> None:
    # the same with recovery points
    flags = "empty_moov+default_base_moof+skip_trailer+frag_keyframe"
    media.remux(media.make("opengop.mp4", folder), path, movflags=flags)


@case("joined.ts", lambda path: len({bytes(p)[:40] for p in packets(path) if p.is_keyframe}) > 1)
def _joined(path: Path, folder: Path) -> None:
    # two encoders' streams joined: other profile, reference count, slices and entropy coder
    one, two = folder / "joined_a.ts", folder / "joined_b.ts"
    media.encode(
        one,
        numbers=range(45),
        **{"x264-params": "keyint=20:bframes=3:ref=4:b-pyramid=normal:slices=2"},
    )
    media.encode(
        two,
        numbers=range(45, 90),
        start=45,
        profile="baseline",
        **{"x264-params": "keyint=15:ref=1:bframes=0:cabac=0"},
    )
    path.write_bytes(one.read_bytes() + two.read_bytes())


@case("joined_hevc.ts", lambda path: shown(path) > 80)
def _joined_hevc(path: Path, folder: Path) -> None:
    # two HEVC streams of different structure and size joined
    one, two = folder / "joined_c.ts", folder / "joined_d.ts"
    media.encode(
        one,
        "libx265",
        numbers=range(45),
        **{"x265-params": "keyint=20:bframes=4:open-gop=1:repeat-headers=1"},
    )
    media.encode(
        two,
        "libx265",
        numbers=range(45, 90),
        size=(96, 64),
        start=45,
        **{"x265-params": "keyint=15:bframes=0:repeat-headers=1"},
    )
    path.write_bytes(one.read_bytes() + two.read_bytes())


@case("no_cues.mkv", lambda path: b"\x1c\x53\xbb\x6b" not in path.read_bytes())
def _no_cues(path: Path, folder: Path) -> None:
    # a live Matroska file: no cues, no length
    media.remux(media.make("opengop.mp4", folder), path, live="1")


@case("starts_late.mp4", lambda path: not packets(path)[0].is_keyframe)
def _starts_late(path: Path, folder: Path) -> None:
    # the first frames are no key frames: the first eight packets were cut off
    media.remux(
        media.make("pyramid.mp4", folder),
        path,
        lambda number, packet: packet if number > 7 else None,
    )


@case("starts_late.mkv", lambda path: not packets(path)[0].is_keyframe, clean=False)
def _starts_late_mkv(path: Path, folder: Path) -> None:
    # the same with HEVC: leading and trailing pictures before the first random access point
    media.remux(
        media.make("hevc_opengop.mp4", folder),
        path,
        lambda number, packet: packet if number > 3 else None,
    )


def key_samples(path: Path) -> tuple[int, ...]:
    """The numbers of the samples that are said to be random access points, from 1."""
    data = path.read_bytes()
    at = box(data, b"stss") + 12
    (count,) = struct.unpack(">I", data[at : at + 4])
    return struct.unpack(f">{count}I", data[at + 4 : at + 4 + 4 * count])


@case("key_flags_lie.mp4", lambda path: key_samples(path) == (1, 34, 64))
def _key_flags_lie(path: Path, folder: Path) -> None:
    # samples in the middle of a group are said to be random access points
    data = media.make("pyramid.mp4", folder).read_bytes()
    at = box(data, b"stss") + 16
    path.write_bytes(data[:at] + struct.pack(">3I", 1, 34, 64) + data[at + 12 :])
