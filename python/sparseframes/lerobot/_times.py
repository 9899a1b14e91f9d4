"""Frames by their times, within a tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseframes._decoder import VideoDecoder
from sparseframes._indices import as_seconds
from sparseframes._types import FrameBatch
from sparseframes.errors import ArgumentError, SparseError, UnsupportedError


class FrameTimestampError(SparseError, ValueError):
    """No frame is near enough to a time that was asked for."""


class TimedVideo:
    """A decoder and the times of its frames.

    The times are read once. With a lazy index they are the container's; a request whose frames
    turn out to have other times makes the index whole and is looked up again.

    Thread-safety: as `VideoDecoder`.
    """

    def __init__(self, decoder: VideoDecoder) -> None:
        self.decoder = decoder
        self._clock: _Clock | None = None

    def find(self, timestamps: Sequence[float], tolerance_s: float) -> NDArray[np.int64]:
        """Display indices [N] of the frames nearest to times in seconds.

        Raises:
            FrameTimestampError: a frame is farther from its time than the tolerance.
            UnsupportedError: the stream has no timestamps.
        """
        return self._now().find(timestamps, tolerance_s)

    def frames(self, timestamps: Sequence[float], tolerance_s: float) -> FrameBatch:
        """The frames nearest to times in seconds, in the order asked for. Errors: as `find`."""
        for _ in range(2):
            indices = self.find(timestamps, tolerance_s)
            batch = self.decoder.get_frames_at(indices)
            if self.confirm(indices):
                return batch
        raise self.unsteady()

    def confirm(self, indices: NDArray[np.int64]) -> bool:
        """Whether frames just decoded have the times they were chosen for.

        If not, all headers are read now, and the same times may give other indices.
        """
        with self.decoder._use() as reader:
            pts = reader.frame_info_at(indices)["pts_seconds"]
        if np.array_equal(self._now().pts[indices], pts):
            return True
        self.decoder.build_index()
        self._clock = None
        return False

    def unsteady(self) -> UnsupportedError:
        """What to raise when the times don't hold even with a whole index."""
        return UnsupportedError(
            f"{self._name}: the times of the frames change from one request to the next",
            file=self._name,
        )

    @property
    def _name(self) -> str:
        return self.decoder._source.name

    def _now(self) -> _Clock:
        clock = self._clock
        if clock is None:
            with self.decoder._use() as reader:
                table = reader.frame_info(0, reader.frame_count())
            clock = self._clock = _Clock(table["pts_seconds"].copy(), self._name)
        return clock


class _Clock:
    """The times of a stream's frames."""

    def __init__(self, pts: NDArray[np.float64], name: str) -> None:
        if not len(pts) or np.isnan(pts).any():
            raise UnsupportedError(f"{name}: not all frames have timestamps", file=name)
        self.pts = pts
        self.name = name
        ordered = bool((np.diff(pts) >= 0).all())
        # of equal times the first frame shown counts
        self.order = None if ordered else np.argsort(pts, kind="stable")
        self.sorted = pts if self.order is None else pts[self.order]

    def find(self, timestamps: Sequence[float], tolerance_s: float) -> NDArray[np.int64]:
        wanted = np.array([as_seconds(value) for value in timestamps], np.float64)
        tolerance = as_seconds(tolerance_s)
        if np.isnan(wanted).any() or not tolerance >= 0:
            raise ArgumentError(
                f"timestamps must be numbers and tolerance_s at least 0, not {tolerance_s!r}"
            )
        right = np.clip(np.searchsorted(self.sorted, wanted), 1, len(self.sorted) - 1)
        if len(self.sorted) == 1:
            right = np.zeros(len(wanted), np.intp)
        left = np.maximum(right - 1, 0)
        nearer_left = wanted - self.sorted[left] <= self.sorted[right] - wanted
        nearest = np.where(nearer_left, left, right)
        # of equal times, the first
        nearest = np.searchsorted(self.sorted, self.sorted[nearest])
        found = self.sorted[nearest]
        near = _within(wanted, found, tolerance)
        if not near.all():
            raise self._too_far(wanted, found, near, tolerance_s)
        chosen = nearest if self.order is None else self.order[nearest]
        return np.asarray(chosen, np.int64)

    def _too_far(
        self,
        wanted: NDArray[np.float64],
        found: NDArray[np.float64],
        near: NDArray[np.bool_],
        tolerance_s: float,
    ) -> FrameTimestampError:
        far = np.abs(wanted - found)[~near]
        return FrameTimestampError(
            f"{len(far)} of {len(wanted)} query timestamps violate the tolerance: "
            f"{_listed(far)} > {tolerance_s=}. No frame of the video is near enough in time; "
            "the timestamps of the data set and of the video may not belong together."
            f"\nqueried timestamps: {_listed(wanted)}"
            f"\nnearest timestamps: {_listed(found)}"
            f"\nvideo: {self.name}",
            file=self.name,
        )


def _within(
    wanted: NDArray[np.float64], found: NDArray[np.float64], tolerance: float
) -> NDArray[np.bool_]:
    """Whether distances are at most the tolerance, where LeRobot would say so, or truly."""
    # a time such as k / fps + tolerance is rounded in its last place
    rounding = 2 * np.spacing(np.maximum(np.abs(wanted), np.abs(found)))
    true = np.abs(wanted - found) <= tolerance + rounding
    # LeRobot computes in single precision, where late times that differ may become equal
    single = np.abs(wanted.astype(np.float32) - found.astype(np.float32)) <= np.float32(tolerance)
    both: NDArray[np.bool_] = true | single
    return both


def _listed(values: NDArray[Any], most: int = 20) -> str:
    shown = ", ".join(f"{value:.6f}" for value in values[:most].tolist())
    return f"[{shown}{', ...' if len(values) > most else ''}]"
