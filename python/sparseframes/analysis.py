"""How many pictures a request costs, counted on paper: the analytic model of amplification.

A request is K frames, S apart, from a video with an anchor (an intra picture) every T frames.
**Amplification** is the number of pictures reconstructed for each frame returned. It depends on
where the request starts within a period, so the mean over all T phases is taken, each as likely as
the others, far from the video's ends.

Three ways to answer are compared, on two structures:

- ``sequential`` and ``sparse``: an ordinary stream with dyadic hierarchical B pictures between two
  anchors. The picture in the middle references both anchors, and halves the interval; the middle
  of each half references the two pictures that bound it, and so on down to single frames. Decode
  order is each middle, then all of its earlier half, then the later one. Sequential decoding
  starts at an anchor and rebuilds everything up to the wanted frame in decode order; sparse
  decoding rebuilds the closure.
- ``ddra``: every picture between two anchors references these two alone.

A picture that serves several frames of a request counts once. These definitions reproduce the
figures stated in the paper "Rethinking Video Storage for AI Training: Breaking Cross-Frame
Dependencies for Efficient Random Access" on amplification against stride, K and T to the digits
given; they were found from these figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from sparseframes.errors import ArgumentError

Method = Literal["sequential", "sparse", "ddra"]


def ddra_pictures(targets: Iterable[int], period: int, frames: int | None = None) -> set[int]:
    """Display indices of the pictures that frames of a DDRA stream cost.

    An anchor costs itself; any other frame also the anchors around it.

    Args:
        targets: display indices, from 0.
        period: frames from one anchor to the next, T.
        frames: length of the stream, whose very last frame is an anchor, too; None for one
            without end. Streams with more than one IDR picture have more anchors than this tells.

    Raises:
        ArgumentError: the period is below 1, or a target is outside the stream.
    """
    needed: set[int] = set()
    for target, start, end in _intervals(targets, period, frames):
        needed.add(target)
        if target not in (start, end):
            needed |= {start, end}
    return needed


def sparse_pictures(targets: Iterable[int], period: int) -> set[int]:
    """Display indices of the closure of frames of an ordinary stream with hierarchical B pictures.

    Args and errors: as `ddra_pictures`, for a stream without end.
    """
    needed: set[int] = set()
    for target, start, end in _intervals(targets, period, None):
        needed.add(target)
        if target != start:
            needed |= {start, end}
            needed.update(start + middle for middle in _halvings(target - start, period))
    return needed


def sequential_pictures(targets: Iterable[int], period: int) -> set[int]:
    """Display indices of what decoding from the anchor before each frame rebuilds.

    The stream is that of `sparse_pictures`. Frames of one interval are taken in one go. Args and
    errors: as `ddra_pictures`, for a stream without end.
    """
    needed: set[int] = set()
    order = _decode_order(period) if period >= 1 else ()
    for target, start, end in _intervals(targets, period, None):
        needed.add(start)
        if target != start:
            last = order.index(target - start)
            needed.add(end)
            needed.update(start + picture for picture in order[: last + 1])
    return needed


PICTURES: dict[str, Callable[[Iterable[int], int], set[int]]] = {
    "sequential": sequential_pictures,
    "sparse": sparse_pictures,
    "ddra": ddra_pictures,
}
"""The functions above by their methods' names."""


def amplification(method: Method, count: int, stride: int, period: int) -> Fraction:
    """Pictures reconstructed for each frame of a strided request, the mean over all phases.

    For one frame of a DDRA stream this is 3 - 2 / period.

    Args:
        method: "sequential", "sparse" or "ddra".
        count: frames of the request, K.
        stride: distance of the frames, S, from 1.
        period: frames from one anchor to the next, T.

    Raises:
        ArgumentError: an argument is below 1, or the method is unknown.
    """
    if method not in PICTURES:
        raise ArgumentError(f"method must be one of {', '.join(PICTURES)}, not {method!r}")
    for name, value in (("count", count), ("stride", stride), ("period", period)):
        if value < 1:
            raise ArgumentError(f"{name} must be at least 1, not {value}")
    pictures = PICTURES[method]
    total = sum(
        len(pictures(range(phase, phase + count * stride, stride), period))
        for phase in range(period)
    )
    return Fraction(total, count * period)


def _intervals(
    targets: Iterable[int], period: int, frames: int | None
) -> Iterable[tuple[int, int, int]]:
    """Each target with the anchors around it; an anchor begins its own interval."""
    if period < 1:
        raise ArgumentError(f"period must be at least 1, not {period}")
    for target in targets:
        if target < 0 or (frames is not None and target >= frames):
            raise ArgumentError(f"there is no frame {target} in the stream")
        start = target - target % period
        end = start + period
        yield target, start, end if frames is None else min(end, frames - 1)


def _halvings(position: int, period: int) -> Iterable[int]:
    """Positions that halve the interval down to one inside it, which comes last."""
    low, high, middle = 0, period, -1
    while middle != position:
        middle = (low + high) // 2
        yield middle
        low, high = (low, middle) if position < middle else (middle, high)


@lru_cache(maxsize=64)
def _decode_order(period: int) -> tuple[int, ...]:
    """Positions between two anchors in decode order: the middle, the earlier half, the later."""

    def halves(low: int, high: int) -> Iterable[int]:
        if high - low > 1:
            middle = (low + high) // 2
            yield middle
            yield from halves(low, middle)
            yield from halves(middle, high)

    return tuple(halves(0, period))
