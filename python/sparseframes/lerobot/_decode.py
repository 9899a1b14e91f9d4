"""LeRobot's `decode_video_frames`, with exact frames at the cost of what they depend on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from sparseframes._types import FrameData, Planes
from sparseframes.errors import ArgumentError, UnsupportedError
from sparseframes.lerobot._cache import VideoDecoderCache, default_cache

if TYPE_CHECKING:
    from torch import Tensor

BACKENDS = ("sparseframes", "torchcodec", "pyav", "video_reader")
DEPTH_FORMAT = "gray12le"


def decode_video_frames(
    video_path: str | Path,
    timestamps: Sequence[float],
    tolerance_s: float,
    backend: str | None = None,
    return_uint8: bool = False,
    is_depth: bool = False,
) -> Tensor:
    """The frames nearest to times, as LeRobot's function of this name returns them.

    Args:
        video_path: a path, or a URL that fsspec knows.
        timestamps: seconds.
        tolerance_s: seconds that a frame may be away from its time, included.
        backend: one of LeRobot's names, or None; whichever it is, sparseframes decodes.
        return_uint8: colours as uint8 0 to 255, not as float32 0 to 1.
        is_depth: the video is of depth codes, gray with 12 bits.

    Returns:
        A tensor [N, 3, H, W] in the order of timestamps, of float32, or uint8 with return_uint8,
        with its channels last in memory. Of depth, uint16 codes [N, 1, H, W] from 0 to 4095.

    Raises:
        FrameTimestampError: no frame is near enough to a time; a ValueError.
        ArgumentError: the backend is not known, or there are no timestamps; a ValueError.
        UnsupportedError: a frame can't be had exactly, or depth is not gray with 12 bits.
        SparseError: what else `VideoDecoder` raises.

    Decoders are kept for the next call: LEROBOT_VIDEO_DECODER_CACHE_SIZE tells how many.
    Thread-safety: safe; calls for different files work at the same time.
    """
    return decode(
        default_cache, video_path, timestamps, tolerance_s, backend, return_uint8, is_depth
    )


def decode(
    cache: VideoDecoderCache,
    video_path: str | Path,
    timestamps: Sequence[float],
    tolerance_s: float,
    backend: str | None = None,
    return_uint8: bool = False,
    is_depth: bool = False,
) -> Tensor:
    """`decode_video_frames` with a cache of one's own."""
    torch = _need_torch()
    if backend is not None and backend not in BACKENDS:
        raise ArgumentError(
            f"backend must be None or one of {', '.join(map(repr, BACKENDS))}, not {backend!r}"
        )
    if not len(timestamps):
        raise ArgumentError(f"{video_path}: there are no timestamps")
    video = cache.get(video_path, "native" if is_depth else "rgb24")
    batch = video.frames(timestamps, tolerance_s)
    if is_depth:
        return torch.from_numpy(depth_codes(batch.data, str(video_path))[:, np.newaxis])
    # the same memory with its axes in another order, as torchcodec has it
    pixels = torch.from_numpy(cast("NDArray[Any]", batch.data)).permute(0, 3, 1, 2)
    return pixels if return_uint8 else pixels.to(torch.float32).div_(255)


def _need_torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ImportError(
            f"tensors need torch: pip install 'sparseframes[torch]' ({error})"
        ) from None
    return torch


def depth_codes(planes: FrameData, name: str) -> NDArray[np.uint16]:
    """The depth codes [N, H, W] of native planes.

    Raises:
        UnsupportedError: the pictures are not gray with 12 bits.
    """
    assert isinstance(planes, Planes)
    if planes.pixel_format != DEPTH_FORMAT:
        raise UnsupportedError(
            f"{name}: depth has to be {DEPTH_FORMAT}, and this is {planes.pixel_format}", file=name
        )
    codes: NDArray[np.uint16] = planes[0]
    return codes
