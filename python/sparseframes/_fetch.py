"""Where frames go: arrays that the library writes to, and what is made of them afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sparseframes import errors
from sparseframes._binding import Layout, is_planar
from sparseframes._orientation import Orientation
from sparseframes._types import FrameData, Planes


@dataclass
class Fetch:
    """Room for the frames of one request.

    Attributes:
        batch: what `Reader.get_frames` writes to.
        width, height: the size that there is room for.
        pixel_format: that of all frames of the request.
        finish: called afterwards, returns the frames as the caller wants them.
    """

    batch: NDArray[Any]
    width: int
    height: int
    pixel_format: str
    finish: Callable[[], FrameData]


def pixel_fetch(
    count: int,
    layout: Layout,
    channels: int,
    orientation: Orientation,
    out: Any,
    *,
    channels_first: bool,
    dtype: type[np.generic] = np.uint8,
) -> Fetch:
    """Room for pixels of one or three channels, in out or a new array.

    As float32 they are divided by 255.
    """
    shape = (count, layout.height, layout.width, channels)
    width, height = orientation.size(layout.width, layout.height)
    if out is not None:
        order = (count, channels, height, width)
        _check_out(out, order if channels_first else (count, height, width, channels), dtype)
        final = out.transpose(0, 2, 3, 1) if channels_first else out
    else:
        final = np.empty((count, height, width, channels), dtype)
    direct = dtype is np.uint8 and orientation.identity and _can_be_written(final)
    batch = final if direct else np.empty(shape, np.uint8)

    def finish() -> FrameData:
        if dtype is np.float32:
            np.divide(orientation.view(batch), np.float32(255), out=final)
        elif not direct:
            np.copyto(final, orientation.view(batch))
        if out is not None:
            return cast("NDArray[np.uint8]", out)
        return cast("NDArray[np.uint8]", final.transpose(0, 3, 1, 2) if channels_first else final)

    return Fetch(batch, layout.width, layout.height, layout.pixel_format, finish)


def native_fetch(count: int, layout: Layout, out: Any) -> Fetch:
    """Room for the planes as decoded."""
    packed = np.empty((count, layout.size), np.uint8)
    planes: list[NDArray[Any]] = []
    for plane in layout.planes:
        part = packed[:, plane.offset : plane.offset + plane.size]
        planes.append(part.view(plane.dtype).reshape(count, *plane.shape))
    if out is not None:
        if len(out) != len(planes):
            raise errors.ArgumentError(
                f"out must be a sequence of {len(planes)} arrays, one a plane"
            )
        for target, values in zip(out, planes, strict=True):
            _check_out(target, values.shape, values.dtype)

    def finish() -> Planes:
        if out is None:
            return Planes(planes, layout.pixel_format, layout.depth)
        for target, values in zip(out, planes, strict=True):
            np.copyto(target, values)
        return Planes(list(out), layout.pixel_format, layout.depth)

    return Fetch(packed, layout.width, layout.height, layout.pixel_format, finish)


def _check_out(out: Any, shape: tuple[int, ...], dtype: Any = np.uint8) -> None:
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out must be a NumPy array, not {type(out).__name__}")
    if out.shape != shape or out.dtype != dtype:
        raise errors.ArgumentError(
            f"out must have shape {shape} and type {np.dtype(dtype)}, not {out.shape} and "
            f"{out.dtype}"
        )
    if not out.flags.writeable:
        raise errors.ArgumentError("out can't be written to")


def _can_be_written(frames: NDArray[Any]) -> bool:
    """Whether [N, H, W, C] has the pixels of each row, or each plane's, one after another."""
    _, _, width, channels = frames.shape
    return is_planar(frames) or bool(
        (channels == 1 or frames.strides[3] == 1)
        and frames.strides[2] == channels
        and frames.strides[1] >= width * channels
    )
