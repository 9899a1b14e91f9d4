"""The frames of several cameras and samples, decoded together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparseframes._batch import decode_batch
from sparseframes._types import FrameData
from sparseframes.lerobot._times import TimedVideo


@dataclass
class Wanted:
    """Frames that a sample wants.

    Attributes:
        target: the sample they go to.
        key: under which name.
        video: where they are.
        timestamps: at which times of the video, in seconds.
    """

    target: dict[str, Any]
    key: str
    video: TimedVideo
    timestamps: list[float]


def decode_together(wanted: Sequence[Wanted], tolerance_s: float, threads: int) -> list[FrameData]:
    """The frames of each request [N, H, W, C], or their planes.

    Raises:
        FrameTimestampError: a frame is farther from its time than the tolerance.
        SparseError: what else `VideoDecoder` raises.
    """
    for _ in range(2):
        indices = [request.video.find(request.timestamps, tolerance_s) for request in wanted]
        frames = decode_batch(
            [(request.video.decoder, k) for request, k in zip(wanted, indices, strict=True)],
            threads=threads,
        )
        steady = [request.video.confirm(k) for request, k in zip(wanted, indices, strict=True)]
        if all(steady):
            return frames
    raise wanted[steady.index(False)].video.unsteady()
