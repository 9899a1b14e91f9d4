"""Is a file what DDRA promises? Told from the slice headers, without decoding a picture."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from sparseframes._decoder import VideoDecoder
from sparseframes.errors import UnsupportedError

# violations that a report lists; all are counted
LISTED = 100


@dataclass(frozen=True)
class Violation:
    """One thing that breaks the structure.

    Attributes:
        frame: display index of the picture, None if it is not shown.
        picture: its id, the number of the packet in which it begins.
        reason: what is wrong.
    """

    frame: int | None
    picture: int
    reason: str

    def __str__(self) -> str:
        where = f"picture {self.picture}" if self.frame is None else f"frame {self.frame}"
        return f"{where}: {self.reason}"


@dataclass
class DDRAReport:
    """What `check_ddra` found.

    Attributes:
        file: name of the file.
        codec: FFmpeg's name of the codec.
        frames: number of frames.
        anchors: display indices of the anchors.
        longest_interval: frames from one anchor to the next, at most.
        worst: pictures that any one frame costs, at most.
        mean: pictures that a frame costs, asked for alone, on average.
        violations: what breaks the structure, the first `LISTED` of them.
        violation_count: how many there are.
    """

    file: str
    codec: str
    frames: int
    anchors: list[int] = field(repr=False)
    longest_interval: int
    worst: int
    mean: float
    violations: list[Violation]
    violation_count: int

    @property
    def ok(self) -> bool:
        """Whether every picture keeps to the structure."""
        return self.violation_count == 0


def check_ddra(source: object, *, progress: Callable[[float], object] | None = None) -> DDRAReport:
    """Check that every picture is an intra anchor, or references at most the two around it.

    Anchors reference nothing, and everything else is referenced by nothing. The first and the
    last frame have to be anchors.

    Args:
        source: what `VideoDecoder` takes.
        progress: called with the share done, 0 to 1.

    Raises:
        UnsupportedError: the codec's references are not known to this library.
        SparseError: what `VideoDecoder` raises.
    """
    with VideoDecoder(source) as decoder:
        name = decoder._source.name
        if not decoder._info.sparse:
            raise UnsupportedError(
                f"{name}: the references of {decoder._info.codec} pictures are not known", file=name
            )
        decoder.build_index(progress)
        count = len(decoder)
        plan = decoder.plan(range(count))
        with decoder._use() as reader:
            table = decoder._frame_table(reader)
        codec = decoder._info.codec
    shown = {int(picture): k for k, picture in enumerate(table["picture"].tolist())}
    types = [text.decode() for text in table["picture_type"].tolist()]
    references = {int(p): plan.references(p) for p in plan.reconstruct.tolist()}

    anchors = sorted(k for p, k in shown.items() if not references[p])
    around = _around(anchors, count)
    pictures = {k: p for p, k in shown.items()}
    found: list[Violation] = []
    for picture, direct in sorted(references.items(), key=lambda item: shown.get(item[0], -1)):
        frame = shown.get(picture)
        if frame is None:
            found.append(Violation(None, picture, "it is needed and never shown"))
            continue
        if not direct:
            if types[frame] not in ("I", ""):
                found.append(
                    Violation(frame, picture, f"a {types[frame]} picture without references")
                )
            continue
        for reference in direct:
            other = shown.get(reference)
            if other is None:
                found.append(Violation(frame, picture, "it references a picture never shown"))
            elif references[reference]:
                reason = f"it references frame {other}, which is no anchor"
                found.append(Violation(frame, picture, reason))
            elif other not in around[frame]:
                reason = f"it references frame {other}, an anchor of another interval"
                found.append(Violation(frame, picture, reason))
    for frame in sorted({0, count - 1} if count else ()):
        if references[pictures[frame]]:
            end = "first" if frame == 0 else "last"
            found.append(Violation(frame, pictures[frame], f"the {end} frame is no anchor"))

    costs = [_closure_size(pictures[k], references) for k in range(count)]
    return DDRAReport(
        file=name,
        codec=codec,
        frames=count,
        anchors=anchors,
        longest_interval=max((b - a for a, b in itertools.pairwise(anchors)), default=0),
        worst=max(costs, default=0),
        mean=sum(costs) / count if count else 0.0,
        violations=found[:LISTED],
        violation_count=len(found),
    )


def _around(anchors: list[int], count: int) -> list[tuple[int, int]]:
    """For each frame, the anchors before and after it; -1 where there is none."""
    before, after = [-1] * count, [-1] * count
    kinds = set(anchors)
    last = -1
    for k in range(count):
        before[k] = last
        last = k if k in kinds else last
    last = -1
    for k in reversed(range(count)):
        after[k] = last
        last = k if k in kinds else last
    return list(zip(before, after, strict=True))


def _closure_size(picture: int, references: dict[int, tuple[int, ...]]) -> int:
    reached = {picture}
    waiting = [picture]
    while waiting:
        for other in references[waiting.pop()]:
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return len(reached)
