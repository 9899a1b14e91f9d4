"""Torchcodec's samplers of clips by index."""

from __future__ import annotations

import torch

from sparseframes._decoder import VideoDecoder
from sparseframes.errors import ArgumentError
from sparseframes.torch._batch import FrameBatch, as_tensors
from sparseframes.torch._policy import Policy, check_common, filled


def clips_at_random_indices(
    decoder: VideoDecoder,
    *,
    num_clips: int = 1,
    num_frames_per_clip: int = 1,
    num_indices_between_frames: int = 1,
    sampling_range_start: int = 0,
    sampling_range_end: int | None = None,
    policy: Policy = "repeat_last",
) -> FrameBatch:
    """Clips that begin at random frames, drawn by torch's global generator.

    The arguments, and for one state of the generator the frames, are those of torchcodec's
    function of this name.

    Args:
        decoder: where the frames come from, in RGB or gray.
        num_clips: how many clips.
        num_frames_per_clip: how many frames each.
        num_indices_between_frames: from one frame of a clip to the next, 1 for neighbours.
        sampling_range_start: the first frame that a clip may begin with; a negative number counts
            from the end.
        sampling_range_end: the frame before which the last clip has to begin; a negative number
            counts from the end. None for the last start with which a clip still fits in.
        policy: how a clip goes on that reaches the end: "repeat_last" repeats its last frame,
            "wrap" repeats the clip from its beginning, "error" raises.

    Returns:
        A batch whose data is uint8 [num_clips, num_frames_per_clip, H, W, C], or [..., C, H, W]
        for a decoder with the dimension order "NCHW".

    Raises:
        ArgumentError: an argument is not allowed, or policy forbids a clip; a ValueError.
        SparseError: what else `VideoDecoder` raises.
    """
    clips = _Clips(decoder, num_frames_per_clip, num_indices_between_frames, policy)
    first, end = clips.start_range(num_clips, sampling_range_start, sampling_range_end)
    return clips.at(torch.randint(first, end, (num_clips,)))


def clips_at_regular_indices(
    decoder: VideoDecoder,
    *,
    num_clips: int = 1,
    num_frames_per_clip: int = 1,
    num_indices_between_frames: int = 1,
    sampling_range_start: int = 0,
    sampling_range_end: int | None = None,
    policy: Policy = "repeat_last",
) -> FrameBatch:
    """Clips that begin at frames spread evenly over the range, its two ends included.

    Arguments, result and errors: as `clips_at_random_indices`. Of more clips than there are
    frames to begin with, several begin with the same.
    """
    clips = _Clips(decoder, num_frames_per_clip, num_indices_between_frames, policy)
    first, end = clips.start_range(num_clips, sampling_range_start, sampling_range_end)
    return clips.at(regular_starts(first, end, num_clips))


def regular_starts(first: int, end: int, num_clips: int) -> torch.Tensor:
    """Where evenly spread clips begin, int [num_clips]: torchcodec leaves the rounding to torch."""
    return torch.linspace(first, end - 1, steps=num_clips, dtype=torch.int)


def span(num_frames_per_clip: int, num_indices_between_frames: int) -> int:
    """Frames from the first to the last of a clip, both included."""
    if num_indices_between_frames < 1:
        raise ArgumentError(
            f"num_indices_between_frames must be positive, not {num_indices_between_frames}"
        )
    return num_indices_between_frames * (num_frames_per_clip - 1) + 1


def start_range(
    count: int, num_clips: int, clip_span: int, start: int, end: int | None
) -> tuple[int, int]:
    """The first frame that a clip may begin with, and that before which it has to."""
    if num_clips < 1:
        raise ArgumentError(f"num_clips must be positive, not {num_clips}")
    first = start + count if start < 0 else start
    if not 0 <= first < count:
        raise ArgumentError(f"sampling_range_start is {start}: the video has {count} frames")
    if end is None:
        stop = max(count - clip_span + 1, 1)
    else:
        stop = min(end + count if end < 0 else end, count)
    if first >= stop:
        given = "the last clip that fits in" if end is None else f"sampling_range_end {end}"
        raise ArgumentError(f"sampling_range_start {start} is not before {given}, frame {stop}")
    return first, stop


def clip_indices(start: int, length: int, step: int, count: int, policy: Policy) -> list[int]:
    """The frames of a clip that begins at start, of a video of count frames."""
    return filled(range(start, min(start + length * step, count), step), length, policy)


class _Clips:
    """Clips of one length and step."""

    def __init__(self, decoder: VideoDecoder, frames: int, step: int, policy: Policy) -> None:
        self._count = check_common(decoder, frames, policy)
        self._span = span(frames, step)
        self._decoder = decoder
        self._frames = frames
        self._step = step
        self._policy: Policy = policy

    def start_range(self, num_clips: int, start: int, end: int | None) -> tuple[int, int]:
        """As the function of this name."""
        return start_range(self._count, num_clips, self._span, start, end)

    def at(self, starts: torch.Tensor) -> FrameBatch:
        """The clips that begin at these frames."""
        indices = [
            index
            for start in starts.tolist()
            for index in clip_indices(start, self._frames, self._step, self._count, self._policy)
        ]
        return as_tensors(self._decoder.get_frames_at(indices), len(starts))
