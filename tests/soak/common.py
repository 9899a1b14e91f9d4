"""What the soaks share: inputs, expected frames, and what a process holds."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import media

from sparseframes import VideoDecoder
from sparseframes.validation.reference import digest, own_reference

FRAMES = 24
SIZE = (64, 48)
KINDS = {
    "a.mp4": ("libx264", {"x264-params": "keyint=12:bframes=3"}),
    "b.mp4": ("libx264", {"x264-params": "keyint=250:bframes=2:open-gop=1:slices=2"}),
    "c.mkv": ("libx264", {"x264-params": "keyint=8:bframes=1:interlaced=1"}),
    "d.mp4": ("libx265", {"x265-params": "keyint=12:bframes=4"}),
    "e.ts": ("libx265", {"x265-params": "keyint=8:bframes=2:open-gop=1:repeat-headers=1"}),
}


def inputs(folder: Path) -> dict[Path, list[bytes]]:
    """Small files of each kind, and the digests of their frames."""
    made = {}
    for name, (encoder, options) in KINDS.items():
        path = folder / name
        media.encode(path, encoder, numbers=range(FRAMES), size=SIZE, **options)
        made[path] = linear(path)
    return made


def linear(path: Path) -> list[bytes]:
    """Digests of the frames of a linear decode."""
    with VideoDecoder(path, pixel_format="native") as decoder, decoder._use() as reader:
        return own_reference(reader, "native", decoder._orientation).digests


def copies(made: dict[Path, list[bytes]], folder: Path, count: int) -> dict[Path, list[bytes]]:
    """So many files with names of their own: copies, so that each is another file to the system."""
    kinds = list(made.items())
    out = {}
    for number in range(count):
        source, digests = kinds[number % len(kinds)]
        path = folder / f"{number:05d}{source.suffix}"
        shutil.copyfile(source, path)
        out[path] = digests
    return out


def check(decoder: VideoDecoder, indices: list[int], expected: list[bytes]) -> None:
    """Ask for frames and compare them."""
    batch = decoder.get_frames_at(indices)
    for frame, index in zip(batch, indices, strict=True):
        assert digest(list(frame.data)) == expected[index], (repr(decoder), index)


def resident() -> int:
    """Resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    """Open file descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def tasks() -> int:
    """Threads of this process."""
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208
