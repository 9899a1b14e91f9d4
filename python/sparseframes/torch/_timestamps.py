"""Torchcodec's samplers of clips by time."""

from __future__ import annotations

import torch

from sparseframes._decoder import VideoDecoder
from sparseframes.errors import ArgumentError, UnsupportedError
from sparseframes.torch._batch import FrameBatch, as_tensors
from sparseframes.torch._policy import Policy, check_common, filled


def clips_at_random_timestamps(
    decoder: VideoDecoder,
    *,
    num_clips: int = 1,
    num_frames_per_clip: int = 1,
    seconds_between_frames: float | None = None,
    sampling_range_start: float | None = None,
    sampling_range_end: float | None = None,
    policy: Policy = "repeat_last",
) -> FrameBatch:
    """Clips that begin at random times, drawn by torch's global generator.

    The arguments, and for one state of the generator the frames, are those of torchcodec's
    function of this name.

    Args:
        decoder: where the frames come from, in RGB or gray.
        num_clips: how many clips.
        num_frames_per_clip: how many frames each: those shown at the clip's times.
        seconds_between_frames: from one time of a clip to the next; None for a frame's mean
            duration.
        sampling_range_start: the first time at which a clip may begin; None for the first frame's.
        sampling_range_end: the time before which a clip has to begin; None for the last with which
            it still fits in.
        policy: how a clip goes on that reaches the end: "repeat_last" repeats its last time,
            "wrap" repeats the clip from its beginning, "error" raises.

    Returns:
        A batch whose data is uint8 [num_clips, num_frames_per_clip, H, W, C], or [..., C, H, W]
        for a decoder with the dimension order "NCHW".

    Raises:
        ArgumentError: an argument is not allowed, or policy forbids a clip; a ValueError.
        UnsupportedError: the stream has no timestamps.
        SparseError: what else `VideoDecoder` raises.
    """
    if num_clips < 1:
        raise ArgumentError(f"num_clips must be positive, not {num_clips}")
    clips = _Clips(decoder, num_frames_per_clip, seconds_between_frames, policy)
    first, end = clips.start_range(sampling_range_start, sampling_range_end)
    starts = torch.rand(num_clips, dtype=torch.float64) * (end - first) + first
    return clips.at(starts)


def clips_at_regular_timestamps(
    decoder: VideoDecoder,
    *,
    seconds_between_clip_starts: float,
    num_frames_per_clip: int = 1,
    seconds_between_frames: float | None = None,
    sampling_range_start: float | None = None,
    sampling_range_end: float | None = None,
    policy: Policy = "repeat_last",
) -> FrameBatch:
    """Clips that begin at regular times.

    Args:
        decoder: as of `clips_at_random_timestamps`, and so are all others but one.
        seconds_between_clip_starts: from the beginning of one clip to that of the next.
        num_frames_per_clip: see there.
        seconds_between_frames: see there.
        sampling_range_start: see there.
        sampling_range_end: see there.
        policy: see there.

    Result and errors: as `clips_at_random_timestamps`, with as many clips as the range holds.
    """
    if not seconds_between_clip_starts > 0:
        raise ArgumentError(
            f"seconds_between_clip_starts must be positive, not {seconds_between_clip_starts}"
        )
    clips = _Clips(decoder, num_frames_per_clip, seconds_between_frames, policy)
    first, end = clips.start_range(sampling_range_start, sampling_range_end)
    starts = torch.arange(first, end, seconds_between_clip_starts, dtype=torch.float64)
    # rounding may have added one at the end
    return clips.at(starts[starts < end])


class _Clips:
    """Clips of one length and pace."""

    def __init__(
        self, decoder: VideoDecoder, frames: int, pace: float | None, policy: Policy
    ) -> None:
        check_common(decoder, frames, policy)
        metadata = decoder.metadata
        begin, end = metadata.begin_stream_seconds_from_content, metadata.end_stream_seconds
        rate = metadata.average_fps
        if begin is None or end is None or not rate:
            name = decoder._source.name
            raise UnsupportedError(f"{name}: the stream has no timestamps", file=name)
        if pace is not None and not pace > 0:
            raise ArgumentError(f"seconds_between_frames must be positive, not {pace}")
        self._decoder = decoder
        self._frames = frames
        self._pace = 1 / rate if pace is None else pace
        self._policy: Policy = policy
        self._begin, self._end = begin, end

    def start_range(self, start: float | None, end: float | None) -> tuple[float, float]:
        """The first time at which a clip may begin, and that before which it has to."""
        first = self._begin if start is None else start
        if not self._begin <= first < self._end:
            raise ArgumentError(
                f"sampling_range_start is {start}: the video goes from {self._begin} s to "
                f"{self._end} s"
            )
        if end is None:
            stop = self._end - (self._frames - 1) * self._pace
        elif end <= self._begin:
            raise ArgumentError(f"sampling_range_end is {end}: the video begins at {self._begin} s")
        else:
            stop = end
        if first >= stop:
            raise ArgumentError(
                f"sampling_range_start {first} is not before sampling_range_end {stop}"
            )
        return first, min(stop, self._end)

    def at(self, starts: torch.Tensor) -> FrameBatch:
        """The clips that begin at these times."""
        times: list[float] = []
        for start in starts.tolist():
            clip = [start + k * self._pace for k in range(self._frames)]
            times += filled([t for t in clip if t < self._end], self._frames, self._policy)
        return as_tensors(self._decoder.get_frames_played_at(times), len(starts))
