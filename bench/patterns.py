"""Which frames a request asks for: the access patterns of training, seeded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Pattern = Callable[[np.random.Generator, int], list[int]]


def window(rng: np.random.Generator, frames: int, length: int, count: int) -> list[int]:
    """Count different frames of a window somewhere in the file."""
    length = min(length, frames)
    start = int(rng.integers(frames - length + 1))
    chosen = rng.choice(length, min(count, length), replace=False)
    return sorted((start + chosen).tolist())


def stride(rng: np.random.Generator, frames: int, step: int, count: int) -> list[int]:
    """Count frames, step apart, or as many as the file has room for."""
    count = min(count, (frames - 1) // step + 1)
    start = int(rng.integers(frames - (count - 1) * step))
    return list(range(start, start + count * step, step))


PATTERNS: dict[str, Pattern] = {
    "contiguous": lambda rng, frames: stride(rng, frames, 1, 10),
    "window": lambda rng, frames: window(rng, frames, 100, 10),
    "stride 4": lambda rng, frames: stride(rng, frames, 4, 10),
    "stride 30": lambda rng, frames: stride(rng, frames, 30, 10),
    "single": lambda rng, frames: [int(rng.integers(frames))],
    "whole": lambda rng, frames: list(range(frames)),
}
"""The patterns of the comparison. Indices are ascending, which some loaders need to be quick."""

WHOLE = "whole"

TITLES = {
    "contiguous": "10 in a row",
    "window": "10 of a window of 100",
    "stride 4": "10, stride 4",
    "stride 30": "10, stride 30",
    "single": "one frame",
    "whole": "whole file",
}

FOUR = ("contiguous", "window", "stride 4", "stride 30")
"""The patterns that means are taken over."""


def requests(pattern: str, frames: int, count: int, seed: tuple[int, ...]) -> list[list[int]]:
    """The requests of one block; the same seed gives the same ones."""
    rng = np.random.default_rng(seed)
    return [PATTERNS[pattern](rng, frames) for _ in range(count)]
