"""Batches of frames as tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from sparseframes import _types
from sparseframes.errors import ArgumentError


@dataclass(repr=False)
class FrameBatch:
    """Frames, or clips of frames, as tensors: torchcodec's type of this name.

    Iterating and indexing work along the first axis.

    Attributes:
        data: uint8 pixels [N, C, H, W] or [N, H, W, C]; of clips [N, T, ...].
        pts_seconds: float64 [N], or [N, T]: when each frame is first shown.
        duration_seconds: float64, likewise: for how long.
    """

    data: torch.Tensor
    pts_seconds: torch.Tensor
    duration_seconds: torch.Tensor

    def __len__(self) -> int:
        return len(self.pts_seconds)

    def __getitem__(self, key: Any) -> FrameBatch:
        return FrameBatch(self.data[key], self.pts_seconds[key], self.duration_seconds[key])

    def __iter__(self) -> Iterator[FrameBatch]:
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        return (
            f"FrameBatch(data={tuple(self.data.shape)}, pts_seconds={self.pts_seconds}, "
            f"duration_seconds={self.duration_seconds})"
        )


def as_tensors(batch: _types.FrameBatch, clips: int | None = None) -> FrameBatch:
    """The same frames as tensors, which share their memory with the arrays.

    Args:
        batch: what a `VideoDecoder` returned; not native planes.
        clips: into how many clips of equal length to part the frames; None for no clips.

    Raises:
        ArgumentError: the batch holds native planes.
    """
    if isinstance(batch.data, _types.Planes):
        raise ArgumentError("native planes are no tensor: take 'rgb24' or 'gray'")
    tensors = FrameBatch(
        torch.from_numpy(batch.data),
        torch.from_numpy(batch.pts_seconds),
        torch.from_numpy(batch.duration_seconds),
    )
    if clips is None:
        return tensors
    return FrameBatch(
        tensors.data.unflatten(0, (clips, -1)),
        tensors.pts_seconds.unflatten(0, (clips, -1)),
        tensors.duration_seconds.unflatten(0, (clips, -1)),
    )
