"""Checking the indices and times that callers pass."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseframes.errors import ArgumentError


def as_index(value: object) -> int:
    """One index as an int; TypeError for anything but an integer, bool included."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError("a frame index must be an integer, not bool")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"a frame index must be an integer, not {type(value).__name__}") from None


def as_indices(values: Any) -> NDArray[np.int64]:
    """A list, range, array or other sequence of indices as a new int64 array [N]."""
    if isinstance(values, (str, bytes)) or np.ndim(values) == 0:
        raise TypeError(f"indices must be a sequence of integers, not {type(values).__name__}")
    if isinstance(values, range):
        return np.array(values, np.int64)
    if not isinstance(values, np.ndarray):
        if not hasattr(values, "__array__"):
            return np.array([_in_int64(as_index(value)) for value in values], np.int64)
        values = np.asarray(values)
    if values.ndim != 1:
        raise ArgumentError(f"indices must have one dimension, not {values.ndim}")
    if values.size == 0:
        return np.zeros(0, np.int64)
    if values.dtype.kind not in "iu":
        raise TypeError(f"indices must be integers, not {values.dtype}")
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(_MOST))
    return np.array(values, np.int64)


def as_seconds(value: object) -> float:
    """One time as a float; TypeError for what is no number."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError("a time must be a number of seconds, not bool")
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"a time must be a number of seconds, not {type(value).__name__}")
    return float(value)


_MOST = (1 << 63) - 1


def _in_int64(index: int) -> int:
    # anything so far outside stays outside
    return max(-_MOST, min(index, _MOST))


class Timeline:
    """Which frame is shown when.

    A frame is shown from its own time until that of the next in display order, the last one for
    its duration.
    """

    def __init__(self, pts: NDArray[np.float64], end: float) -> None:
        self.pts = pts
        self.begin = float(np.nanmin(pts)) if not np.isnan(pts).all() else float("nan")
        self._ordered = bool((np.diff(pts) >= 0).all()) and not np.isnan(pts).any()
        # an unknown duration: at least the frame's own time is its own
        self._until = np.append(pts[1:], max(end, np.nextafter(pts[-1], np.inf)))
        self.end = float(np.nanmax(self._until)) if not np.isnan(pts).all() else float("nan")

    def find(self, seconds: float) -> int | None:
        """Index of the frame shown at a time, None outside the stream."""
        if self._ordered:
            if not self.begin <= seconds < self.end:
                return None
            return int(np.searchsorted(self.pts, seconds, side="right")) - 1
        shown = np.flatnonzero((self.pts <= seconds) & (seconds < self._until))
        return int(shown[0]) if len(shown) else None

    def between(self, start: float, stop: float) -> NDArray[np.int64]:
        """Indices of the frames shown in [start, stop), all that are at some moment in it."""
        return np.flatnonzero((self._until > start) & (self.pts < stop)).astype(np.int64)
