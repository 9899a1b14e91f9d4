"""Turning pictures the way a display matrix asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Orientation:
    """A mirroring left-right, if flip, and then a turn by clockwise degrees: 0, 90, 180 or 270."""

    clockwise: int = 0
    flip: bool = False

    @property
    def identity(self) -> bool:
        """Whether pictures stay as they are."""
        return self.clockwise == 0 and not self.flip

    @property
    def counter_clockwise(self) -> float | None:
        """The turn as torchcodec tells it: -90, 90, -180 or None."""
        return {0: None, 90: -90.0, 180: -180.0, 270: 90.0}[self.clockwise]

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height after the turn."""
        return (height, width) if self.clockwise in (90, 270) else (width, height)

    def coded_rectangle(
        self, rectangle: tuple[int, int, int, int], width: int, height: int
    ) -> tuple[int, int, int, int]:
        """Where (left, top, width, height) of a turned picture is in the coded one.

        width and height are those of the coded picture.
        """
        left, top, across, down = rectangle
        if self.clockwise == 90:
            left, top, across, down = top, height - left - across, down, across
        elif self.clockwise == 180:
            left, top = width - left - across, height - top - down
        elif self.clockwise == 270:
            left, top, across, down = width - top - down, left, down, across
        if self.flip:
            left = width - left - across
        return left, top, across, down

    def view(self, frames: NDArray[Any]) -> NDArray[Any]:
        """A view of [N, H, W, C] as it is to be seen."""
        if self.flip:
            frames = frames[:, :, ::-1]
        return np.rot90(frames, -self.clockwise // 90, axes=(1, 2))
