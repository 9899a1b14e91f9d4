"""Whether two files have frames at the same times."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparseframes._decoder import VideoDecoder
from sparseframes.encode import EncodeError, find_program
from sparseframes.encode._program import message_of
from sparseframes.errors import UnsupportedError

# less than a tick of any time base in use, more than what arithmetic adds
TOLERANCE_S = 1e-6


def same_times(source: Path, target: Path) -> None:
    """Compare the times of all frames.

    Raises:
        EncodeError: the number of frames differs, or the time of one of them.
    """
    old, new = frame_times(source), frame_times(target)
    if len(old) != len(new):
        raise EncodeError(
            f"{source}: the encoded file has {len(new)} frames and not {len(old)}", file=str(source)
        )
    off = np.flatnonzero(~(np.abs(old - new) <= TOLERANCE_S))
    if len(off):
        k = int(off[0])
        raise EncodeError(
            f"{source}: frame {k} is at {new[k]} s in the encoded file and not at {old[k]} s",
            file=str(source),
            frame=k,
        )


def frame_times(path: Path) -> NDArray[np.float64]:
    """Times in seconds of all frames that a linear decode puts out, in their order."""
    try:
        with VideoDecoder(path) as decoder, decoder._use() as reader:
            table = reader.frame_info(0, reader.frame_count())
            times: NDArray[np.float64] = table["pts_seconds"].copy()
            return times
    except UnsupportedError:
        return _times_by_program(path)


def _times_by_program(path: Path) -> NDArray[np.float64]:
    # codecs that this library doesn't read, decoded by the encoder program's ffprobe
    command = [
        str(find_program("ffprobe")),
        *("-v", "error", "-select_streams", "v:0", "-show_entries", "frame=pts_time"),
        *("-of", "csv=p=0", f"file:{path}"),
    ]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise EncodeError(f"{path}: {message_of(done.stderr, str(path))}", file=str(path))
    return np.array([_seconds(line) for line in done.stdout.split()], np.float64)


def _seconds(text: str) -> float:
    try:
        return float(text.split(",")[0])
    except ValueError:
        return float("nan")
