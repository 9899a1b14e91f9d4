"""What a clip is filled with that reaches beyond the end of the video."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal, TypeVar

from sparseframes._decoder import VideoDecoder
from sparseframes.errors import ArgumentError

Policy = Literal["repeat_last", "wrap", "error"]
POLICIES = ("repeat_last", "wrap", "error")

Value = TypeVar("Value", int, float)


def check_common(decoder: VideoDecoder, num_frames_per_clip: int, policy: str) -> int:
    """Check what all samplers take; returns the number of frames."""
    count = len(decoder)
    if count < 1:
        raise ArgumentError(f"{decoder._source.name}: there are no frames to sample")
    if num_frames_per_clip < 1:
        raise ArgumentError(f"num_frames_per_clip must be positive, not {num_frames_per_clip}")
    if policy not in POLICIES:
        raise ArgumentError(
            f"policy must be one of {', '.join(map(repr, POLICIES))}, not {policy!r}"
        )
    return count


def filled(values: Sequence[Value], length: int, policy: Policy) -> list[Value]:
    """A clip's indices or times, those inside the video, brought to the clip's length."""
    clip = list(values)
    if len(clip) < length and policy == "error":
        raise ArgumentError(
            "a clip reaches beyond the end of the video, and policy is 'error'; without "
            "sampling_range_end none would"
        )
    repeated = clip[-1:] if policy == "repeat_last" else list(clip)
    return clip + list(itertools.islice(itertools.cycle(repeated), length - len(clip)))
