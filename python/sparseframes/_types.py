"""What a decoder returns: frames, batches, planes, plans, metadata and counters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray


class Planes(tuple[NDArray[Any], ...]):
    """The planes of one picture, or of several with a leading axis, as they were decoded.

    Each plane is an array [H, W], or [N, H, W] in a batch, of uint8 or, above 8 bits a sample,
    uint16, in its own subsampling; a plane of interleaved components has them in a last axis. The
    order is FFmpeg's: Y, U, V for yuv formats.

    Attributes:
        pixel_format: FFmpeg's name, such as "yuv420p10le".
        depth: significant bits a sample.
    """

    pixel_format: str
    depth: int

    def __new__(cls, planes: Iterable[NDArray[Any]], pixel_format: str, depth: int) -> Planes:
        self = super().__new__(cls, planes)
        self.pixel_format = pixel_format
        self.depth = depth
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Planes, (tuple(self), self.pixel_format, self.depth)

    def __repr__(self) -> str:
        return f"Planes({_shape(self)}, {self.pixel_format!r})"

    def frame(self, key: Any) -> Planes:
        """Frame or frames of a batch: each plane at key along its first axis."""
        return Planes((plane[key] for plane in self), self.pixel_format, self.depth)


FrameData = NDArray[np.uint8] | Planes
"""Pixels: uint8 [H, W, C] or [C, H, W], or `Planes`; batches have a leading axis."""


def _shape(data: FrameData) -> str:
    if isinstance(data, Planes):
        return "[" + ", ".join(str(plane.shape) for plane in data) + "]"
    return str(data.shape)


@dataclass(repr=False)
class Frame:
    """One frame. Unpacks as ``data, pts_seconds, duration_seconds``.

    Attributes:
        data: the pixels, owned by the caller.
        pts_seconds: when the frame is first shown; NaN when the stream doesn't tell.
        duration_seconds: how long, until the next frame; 0 when unknown.
        index: display index in the stream.
    """

    data: FrameData
    pts_seconds: float
    duration_seconds: float
    index: int

    def __iter__(self) -> Iterator[FrameData | float]:
        return iter((self.data, self.pts_seconds, self.duration_seconds))

    def __repr__(self) -> str:
        return (
            f"Frame(data={_shape(self.data)}, pts_seconds={self.pts_seconds}, "
            f"duration_seconds={self.duration_seconds}, index={self.index})"
        )


@dataclass(repr=False)
class FrameBatch:
    """Several frames, in the order asked for. Iterating gives a `Frame` each.

    Attributes:
        data: the pixels with a leading axis [N, ...], owned by the caller.
        pts_seconds: float64 [N], as in `Frame`.
        duration_seconds: float64 [N], as in `Frame`.
        indices: int64 [N], display indices in the stream.
    """

    data: FrameData
    pts_seconds: NDArray[np.float64]
    duration_seconds: NDArray[np.float64]
    indices: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.indices)

    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> Frame: ...

    @overload
    def __getitem__(self, key: slice | list[int] | NDArray[Any]) -> FrameBatch: ...

    def __getitem__(self, key: Any) -> Frame | FrameBatch:
        data = self.data.frame(key) if isinstance(self.data, Planes) else self.data[key]
        indices = self.indices[key]
        if np.ndim(indices) == 0:
            return Frame(
                data, float(self.pts_seconds[key]), float(self.duration_seconds[key]), int(indices)
            )
        return FrameBatch(data, self.pts_seconds[key], self.duration_seconds[key], indices)

    def __iter__(self) -> Iterator[Frame]:
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        return (
            f"FrameBatch(data={_shape(self.data)}, pts_seconds={self.pts_seconds}, "
            f"duration_seconds={self.duration_seconds}, indices={self.indices})"
        )


@dataclass(frozen=True)
class Plan:
    """The pictures that a request costs.

    Attributes:
        targets: int64, the distinct display indices asked for, ascending.
        reconstruct: int64, ids of the pictures to reconstruct, in decode order. The id of a
            picture is the number of the packet in which it begins.
        bytes: compressed bytes of those pictures.
        linear_count: pictures that decoding from the last key frame before each target would
            rebuild, every segment counted once.
    """

    targets: NDArray[np.int64]
    reconstruct: NDArray[np.int64]
    bytes: int
    linear_count: int
    _references: dict[int, tuple[int, ...]] = dataclasses.field(repr=False)

    @property
    def amplification(self) -> float:
        """Pictures to reconstruct for each distinct target; 0 for an empty request."""
        return len(self.reconstruct) / len(self.targets) if len(self.targets) else 0.0

    def references(self, picture: int) -> tuple[int, ...]:
        """Ids of the pictures that one picture of the plan references directly.

        Raises:
            KeyError: the picture is not in the plan.
        """
        return self._references[int(picture)]


@dataclass
class Stats:
    """Counters since the decoder was opened, or since `VideoDecoder.reset_stats`.

    Attributes:
        requests: calls for frames that reached the library.
        frames_returned: frames delivered, repeats included.
        pictures_reconstructed: pictures decoded to pixels.
        pictures_from_cache: pictures that were kept from earlier requests, by this decoder or by
            another one of the same file.
        state_only_packets: packets of which only the headers were read.
        packets_read, bytes_read: compressed data asked of the source.
        source_bytes: all bytes read from the source, its headers included.
        open_seconds, index_seconds, decode_seconds, convert_seconds: where the time went;
            index_seconds is that of header passes and plans, whatever they were made for.
    """

    requests: int = 0
    frames_returned: int = 0
    pictures_reconstructed: int = 0
    state_only_packets: int = 0
    packets_read: int = 0
    bytes_read: int = 0
    source_bytes: int = 0
    open_seconds: float = 0.0
    index_seconds: float = 0.0
    decode_seconds: float = 0.0
    convert_seconds: float = 0.0
    pictures_from_cache: int = 0


@dataclass
class VideoStreamMetadata:
    """Facts of the stream, under torchcodec's names; None where unknown.

    ``width`` and ``height`` are those of the frames that the decoder returns, after ``rotation``,
    which is in degrees counter-clockwise: -180, -90 or 90, None without one. ``flip`` tells that
    frames are mirrored left-right before that turn. Native planes are returned as coded, before
    both.
    """

    duration_seconds_from_header: float | None
    begin_stream_seconds_from_header: float | None
    bit_rate: float | None
    codec: str | None
    stream_index: int
    begin_stream_seconds_from_content: float | None
    end_stream_seconds_from_content: float | None
    width: int | None
    height: int | None
    num_frames_from_header: int | None
    num_frames_from_content: int | None
    average_fps_from_header: float | None
    pixel_aspect_ratio: Fraction | None
    rotation: float | None
    flip: bool
    color_primaries: str | None
    color_space: str | None
    color_transfer_characteristic: str | None
    color_range: str | None
    pixel_format: str | None
    profile: str | None
    container: str
    sparse: bool
    """Whether closures are found; otherwise the codec is read linearly from a key frame."""

    @property
    def num_frames(self) -> int | None:
        """Number of frames: counted, else as the header tells."""
        if self.num_frames_from_content is not None:
            return self.num_frames_from_content
        return self.num_frames_from_header

    @property
    def begin_stream_seconds(self) -> float:
        """When the first frame is shown."""
        return self.begin_stream_seconds_from_content or 0.0

    @property
    def end_stream_seconds(self) -> float | None:
        """When the last frame ends."""
        if self.end_stream_seconds_from_content is not None:
            return self.end_stream_seconds_from_content
        return self.duration_seconds

    @property
    def duration_seconds(self) -> float | None:
        """From the first frame's start to the last one's end, else as the header tells."""
        begin, end = self.begin_stream_seconds_from_content, self.end_stream_seconds_from_content
        if begin is None or end is None:
            return self.duration_seconds_from_header
        return end - begin

    @property
    def average_fps(self) -> float | None:
        """Frames a second: counted, else as the header tells."""
        begin, end = self.begin_stream_seconds_from_content, self.end_stream_seconds_from_content
        if begin is None or end is None or end <= begin or not self.num_frames:
            return self.average_fps_from_header
        return self.num_frames / (end - begin)
