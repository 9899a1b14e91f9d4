"""Linear decodes that requests are held against: PyAV's FFmpeg, and the one inside.

Only a digest of each frame is kept. Needs PyAV for the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparseframes._orientation import Orientation
from sparseframes._types import Planes

if TYPE_CHECKING:
    from sparseframes._binding import Layout, Reader

# beyond this many a file is checked in its first part only: 48 bytes a frame are kept
MAX_FRAMES = 200_000


class UnreadableError(Exception):
    """The reference decoder can't read the file at all."""


@dataclass
class Reference:
    """Digests of the frames of one linear decode.

    Attributes:
        digests: one a frame, in the order they came out.
        damaged_from: number of the first frame that may be touched by damage, None without any.
        errors: what the decoder said of it, the first few.
        codec: FFmpeg's name of the codec, if known.
    """

    digests: list[bytes] = field(default_factory=list)
    damaged_from: int | None = None
    errors: list[str] = field(default_factory=list)
    codec: str = ""

    def note_damage(self, text: str) -> None:
        """Mark everything from the next frame on."""
        if self.damaged_from is None:
            self.damaged_from = len(self.digests)
        if len(self.errors) < 5:
            self.errors.append(text)


def digest(planes: list[NDArray[Any]]) -> bytes:
    """A hash of the shapes and samples of one picture's planes."""
    state = hashlib.blake2b(digest_size=16)
    for plane in planes:
        state.update(repr((plane.shape, plane.dtype.itemsize)).encode())
        state.update(np.ascontiguousarray(plane).data)
    return state.digest()


def planes_of(layout: Layout, packed: NDArray[np.uint8]) -> Planes:
    """The planes of one packed native picture."""
    return Planes(
        (
            packed[plane.offset : plane.offset + plane.size].view(plane.dtype).reshape(plane.shape)
            for plane in layout.planes
        ),
        layout.pixel_format,
        layout.depth,
    )


# -- PyAV ---------------------------------------------------------------------------------------


def pyav_planes(frame: Any) -> list[NDArray[Any]]:
    """Native planes of a PyAV frame, read from its buffers: [H, W] or [H, W, C], copied."""
    components: dict[int, list[Any]] = {}
    for component in frame.format.components:
        components.setdefault(component.plane, []).append(component)
    planes = []
    for number, members in sorted(components.items()):
        plane = frame.planes[number]
        sample = (members[0].bits + 7) // 8
        channels = len(members)
        if len(components) == 1 and channels > 1:
            channels = frame.format.padded_bits_per_pixel // 8 // sample
        row_bytes = plane.width * sample * channels
        rows = np.frombuffer(plane, np.uint8)
        rows = np.lib.stride_tricks.as_strided(
            rows, (plane.height, row_bytes), (plane.line_size, 1), writeable=False
        )
        shape: tuple[int, ...] = (plane.height, plane.width)
        if channels > 1:
            shape = (*shape, channels)
        planes.append(np.ascontiguousarray(rows).view(f"<u{sample}").reshape(shape))
    return planes


def pyav_frames(
    path: str, reference: Reference | None = None, *, thread_type: str = "NONE", video: int = 0
) -> Iterator[Any]:
    """Frames of one linear decode by PyAV, on one thread.

    What the decoder complains of goes to reference, if there is one, and decoding goes on.

    Raises:
        UnreadableError: PyAV can't open the file, or finds no video in it.
    """
    import av

    def note(error: Exception) -> None:
        if reference is not None:
            reference.note_damage(str(error))

    try:
        container = av.open(path)
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise UnreadableError(f"{path}: {error}") from error
    with container:
        if len(container.streams.video) <= video:
            raise UnreadableError(f"{path}: holds no video stream {video}")
        stream = container.streams.video[video]
        if reference is not None:
            codec = stream.codec_context.codec
            reference.codec = getattr(codec, "canonical_name", codec.name)
        stream.codec_context.thread_count = 1
        stream.thread_type = thread_type
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets, None)
            except av.error.FFmpegError as error:
                # a demuxer that fails has ended; what is inside the decoder still comes out
                note(error)
                packet = None
            try:
                frames = stream.codec_context.decode(packet)
            except av.error.EOFError:
                return
            except (av.error.FFmpegError, ValueError) as error:
                note(error)
                frames = []
            for frame in frames:
                if frame.is_corrupt and reference is not None:
                    reference.note_damage("a corrupt frame")
                yield frame
            if packet is None or packet.size == 0:
                return


def pyav_reference(path: str, *, thread_type: str = "NONE") -> Reference:
    """Digests of the native planes that PyAV decodes."""
    reference = Reference()
    for frame in pyav_frames(path, reference, thread_type=thread_type):
        reference.digests.append(digest(pyav_planes(frame)))
        if len(reference.digests) >= MAX_FRAMES:
            break
    return reference


def pyav_frame(path: str, index: int) -> list[NDArray[Any]] | None:
    """Native planes of one frame of a linear decode by PyAV, None when there are fewer."""
    for k, frame in enumerate(pyav_frames(path)):
        if k == index:
            return pyav_planes(frame)
    return None


# -- the FFmpeg inside --------------------------------------------------------------------------


def own_frames(
    reader: Reader, pixel_format: str, orientation: Orientation
) -> Iterator[tuple[list[NDArray[Any]], bool]]:
    """Frames of the library's linear decode, turned, and whether each is damaged."""
    with reader.linear() as linear:
        while (item := linear.next(pixel_format)) is not None:
            layout, packed, damaged = item
            planes = list(planes_of(layout, packed))
            if pixel_format != "native":
                shape = (1, layout.height, layout.width, -1)
                planes = [orientation.view(packed.reshape(shape))[0]]
            yield planes, damaged


def own_reference(reader: Reader, pixel_format: str, orientation: Orientation) -> Reference:
    """Digests of the frames of the library's own linear decode."""
    reference = Reference()
    for planes, damaged in own_frames(reader, pixel_format, orientation):
        if damaged:
            reference.note_damage("a damaged frame")
        reference.digests.append(digest(planes))
        if len(reference.digests) >= MAX_FRAMES:
            break
    return reference


def own_frame(
    reader: Reader, pixel_format: str, orientation: Orientation, index: int
) -> list[NDArray[Any]] | None:
    """Planes of one frame of the library's linear decode, None when there are fewer."""
    for k, (planes, _) in enumerate(own_frames(reader, pixel_format, orientation)):
        if k == index:
            return planes
    return None
