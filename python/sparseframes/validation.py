"""Random requests held against linear decodes.

Every request is checked twice: its native planes against a linear decode by PyAV, whose FFmpeg is
unpatched, and its RGB against this library's own linear decode. The pictures reconstructed are
counted and held against the plan. Needs PyAV (the ``av`` package).

Where the linear decode meets damage, frames before it have to be exact; from there on each frame
is exact or raises `DecodeError`.
"""

from __future__ import annotations

import random
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseframes import errors
from sparseframes._decoder import VideoDecoder
from sparseframes._reference import (
    MAX_FRAMES,
    Reference,
    UnreadableError,
    digest,
    own_frame,
    own_reference,
    pyav_frame,
    pyav_reference,
)
from sparseframes._types import FrameData, Planes

PATTERNS = (
    "first",
    "last",
    "single",
    "contiguous",
    "strided",
    "shuffled",
    "repeated",
    "reversed",
    "anywhere",
)

# frames that are shown before a damaged one, but decoded after it and from it
REORDER = 16
# a file that fails everywhere needn't say so a thousand times
MAX_MISMATCHES = 20


@dataclass(frozen=True)
class Mismatch:
    """One thing that is not as the linear decode has it.

    Attributes:
        file: the file.
        kind: "native" or "rgb" for pixels; "count", "cost", "raised" or "size".
        index: display index of the frame, or -1.
        detail: in a few words.
        plane, x, y, expected, got: the first sample that differs, for pixels.
        request: the indices asked for, in order.
        number: of the request in the file's series.
        closure: ids of the pictures to reconstruct for the request.
        seed: of the series.
        command: shell command that repeats the series for this file.
    """

    file: str
    kind: str
    index: int
    detail: str
    request: tuple[int, ...] = ()
    number: int = -1
    plane: int = -1
    x: int = -1
    y: int = -1
    expected: int | None = None
    got: int | None = None
    closure: tuple[int, ...] = ()
    seed: int = 0
    command: str = ""


@dataclass
class FileResult:
    """What came of one file.

    Attributes:
        file: the file.
        status: "exact", "mismatch", "refused" (this library says why not), "unreadable" (neither
            it nor PyAV can read it), "failed" (the process died of it).
        reason: why, unless exact.
        frames: frames of the linear decode.
        requests: requests made.
        checked: frames compared, both ways.
        raised: frames refused with DecodeError at or after damage.
        reconstructed, planned: pictures, summed over the requests with a fresh cache.
        damaged_from: first frame that damage may touch, None for a clean file.
        notes: what the linear decoders complained of.
    """

    file: str
    status: str = "exact"
    reason: str = ""
    codec: str = ""
    frames: int = 0
    requests: int = 0
    checked: int = 0
    raised: int = 0
    reconstructed: int = 0
    planned: int = 0
    damaged_from: int | None = None
    notes: list[str] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True)
class Request:
    """Indices to ask for, and the pattern they follow."""

    pattern: str
    indices: tuple[int, ...]


def make_requests(count: int, number: int, size: int, seed: str | int) -> list[Request]:
    """Requests of at most size frames each on a stream of count frames, the patterns in turn."""
    if count <= 0:
        return []
    rng = random.Random(seed)
    return [
        Request(pattern, tuple(_draw(rng, pattern, count, size)))
        for pattern in (PATTERNS[k % len(PATTERNS)] for k in range(number))
    ]


def _draw(rng: random.Random, pattern: str, count: int, size: int) -> Sequence[int]:
    many = rng.randint(1, max(1, min(size, count)))
    start = rng.randint(0, count - many)
    run = list(range(start, start + many))
    if pattern == "first":
        return range(many)
    if pattern == "last":
        return range(count - many, count)
    if pattern == "single":
        return [rng.randrange(count)]
    if pattern == "contiguous":
        return run
    if pattern == "reversed":
        return run[::-1]
    if pattern == "strided":
        step = rng.randint(1, max(1, (count - 1) // many))
        first = rng.randint(0, count - 1 - (many - 1) * step)
        return range(first, first + many * step, step)
    if pattern == "repeated":
        few = [rng.randrange(count) for _ in range(max(1, many // 2))]
        return [rng.choice(few) for _ in range(many + 1)]
    scattered = rng.sample(range(count), many)
    return scattered if pattern == "shuffled" else sorted(scattered)


def validate(
    path: str,
    *,
    requests: int = 200,
    seed: int = 0,
    frames_per_request: int = 8,
    thread_type: str = "NONE",
    threads: int = 1,
    progress: Callable[[float], object] | None = None,
) -> FileResult:
    """Check one file.

    Args:
        path: the file.
        requests: how many; each is checked in native planes and in RGB.
        seed: of the requests.
        frames_per_request: indices a request at most.
        thread_type: PyAV's threading, "NONE", "SLICE" or "FRAME"; always one thread.
        threads: threads of the decoder under test.
        progress: called with the share done, 0 to 1.
    """
    begun = time.perf_counter()
    result = FileResult(path)
    check = _Check(path, requests, seed, frames_per_request, threads, result)
    try:
        check.run(thread_type, progress or (lambda _: None))
    finally:
        check.close()
        result.seconds = time.perf_counter() - begun
    return result


class _Check:
    """One file under test: the decoders, the references, and what is found."""

    def __init__(
        self, path: str, requests: int, seed: int, size: int, threads: int, result: FileResult
    ) -> None:
        self.path = path
        self.number = requests
        self.seed = seed
        self.size = size
        self.threads = threads
        self.result = result
        self.command = (
            f"sparseframes validate {shlex.quote(path)} --requests {requests} --seed {seed} "
            f"--frames-per-request {size}"
        )
        self.open: dict[str, VideoDecoder] = {}
        self.by_pyav = Reference()
        self.by_own: dict[str, Reference] = {}

    def close(self) -> None:
        for decoder in self.open.values():
            decoder.close()
        self.open.clear()

    def decoder(self, pixel_format: Any) -> VideoDecoder:
        if pixel_format not in self.open:
            self.open[pixel_format] = VideoDecoder(
                self.path, pixel_format=pixel_format, threads=self.threads
            )
        return self.open[pixel_format]

    def own(self, pixel_format: str) -> Reference:
        if pixel_format not in self.by_own:
            decoder = self.decoder(pixel_format)
            with decoder._use() as reader:
                self.by_own[pixel_format] = own_reference(
                    reader, pixel_format, decoder._orientation
                )
        return self.by_own[pixel_format]

    def run(self, thread_type: str, progress: Callable[[float], object]) -> None:
        result = self.result
        unreadable = ""
        try:
            self.by_pyav = pyav_reference(self.path, thread_type=thread_type)
        except UnreadableError as error:
            unreadable = str(error)
        result.codec = self.by_pyav.codec
        try:
            decoder = self.decoder("native")
            count = len(decoder)
            rgb = self.own("rgb24")
        except errors.SparseError as error:
            result.reason = str(error)
            nothing = unreadable or not self.by_pyav.digests
            result.status = "unreadable" if nothing else "refused"
            return
        if unreadable:
            result.status, result.reason = "unreadable", unreadable
            return
        result.notes = [f"PyAV: {text}" for text in self.by_pyav.errors]
        result.notes += [f"linear: {text}" for text in rgb.errors]
        starts = [r.damaged_from for r in (self.by_pyav, rgb) if r.damaged_from is not None]
        result.damaged_from = min(starts, default=None)
        result.frames = len(rgb.digests)
        if not count and not rgb.digests:
            result.status = "unreadable"
            result.reason = f"{self.path}: no frame comes out of it"
            if self.by_pyav.digests:
                result.reason += f", though {len(self.by_pyav.digests)} of PyAV's FFmpeg"
            return
        self.compare_counts(count, rgb)
        series = make_requests(
            min(count, MAX_FRAMES), self.number, self.size, f"{self.seed}/{count}"
        )
        for k, request in enumerate(series):
            self.check(k, request)
            progress((k + 1) / len(series))
            if len(result.mismatches) >= MAX_MISMATCHES:
                break
        if result.mismatches:
            result.status = "mismatch"
            result.reason = result.mismatches[0].detail

    def compare_counts(self, count: int, rgb: Reference) -> None:
        if self.result.damaged_from is not None:
            # which frames damage swallows shows only when they are decoded, and versions of FFmpeg
            # differ in it
            return
        counts = {
            "the decoder": count,
            "its linear decode": len(rgb.digests),
            "PyAV's linear decode": len(self.by_pyav.digests),
        }
        if min(counts.values()) < MAX_FRAMES and len(set(counts.values())) > 1:
            text = ", ".join(f"{name} has {value}" for name, value in counts.items())
            self.add("count", -1, f"numbers of frames differ: {text}")

    def add(self, kind: str, index: int, detail: str, **more: Any) -> None:
        self.result.mismatches.append(
            Mismatch(self.path, kind, index, detail, seed=self.seed, command=self.command, **more)
        )

    def check(self, number: int, request: Request) -> None:
        """One request both ways: with the caches of all before it, or with fresh ones."""
        self.result.requests += 1
        fresh = number % 2 == 1
        for pixel_format in ("native", "rgb24"):
            if fresh and pixel_format == "native":
                with VideoDecoder(
                    self.path, pixel_format="native", threads=self.threads
                ) as decoder:
                    self.ask(number, request, decoder, "native", fresh=True)
            else:
                decoder = self.decoder(pixel_format)
                self.ask(number, request, decoder, pixel_format, fresh=False)

    def ask(
        self,
        number: int,
        request: Request,
        decoder: VideoDecoder,
        pixel_format: str,
        *,
        fresh: bool,
    ) -> None:
        context: dict[str, Any] = {"request": request.indices, "number": number}
        try:
            plan = decoder.plan(request.indices)
        except (errors.DecodeError, errors.IndexError) as error:
            self.judge_raise(request.indices, error, context)
            return
        except errors.SparseError as error:
            self.add("raised", -1, f"the plan: {error}", **context)
            return
        context["closure"] = tuple(plan.reconstruct.tolist())
        before = decoder.stats.pictures_reconstructed
        frames = self.get(decoder, request.indices, context)
        if frames is None:
            return
        cost = decoder.stats.pictures_reconstructed - before
        if decoder._info.sparse and self.result.damaged_from is None:
            allowed = len(plan.reconstruct)
            if fresh:
                self.result.reconstructed += cost
                self.result.planned += allowed
            if cost > allowed or (fresh and cost != allowed):
                detail = f"{cost} pictures reconstructed for a closure of {allowed}"
                self.add("cost", -1, detail, **context)
        for index, data in frames:
            self.result.checked += 1
            self.compare(decoder, pixel_format, index, data, context)

    def get(
        self, decoder: VideoDecoder, indices: Sequence[int], context: dict[str, Any]
    ) -> list[tuple[int, FrameData]] | None:
        """The frames of a request: together, or one by one where that can't be."""
        try:
            batch = decoder.get_frames_at(indices)
            return [(frame.index, frame.data) for frame in batch]
        except (errors.DecodeError, errors.IndexError) as error:
            if len(indices) == 1:
                self.judge_raise(indices, error, context)
                return None
        except errors.UnsupportedError as error:
            if len(indices) == 1:
                self.add("raised", indices[0], str(error), **context)
                return None
        except errors.SparseError as error:
            self.add("raised", -1, str(error), **context)
            return None
        for index in dict.fromkeys(indices):
            part = self.get(decoder, [index], context)
            for _, data in part or []:
                self.result.checked += 1
                self.compare(decoder, decoder._format, index, data, context)
        return None

    def judge_raise(
        self, indices: Sequence[int], error: errors.SparseError, context: dict[str, Any]
    ) -> None:
        """Whether it is right to raise: something asked for must be in reach of damage."""
        start = self.result.damaged_from
        if start is not None and max(indices) >= start - REORDER:
            self.result.raised += 1
        else:
            index = error.frame if error.frame is not None else indices[0]
            self.add("raised", index, str(error), **context)

    def compare(
        self,
        decoder: VideoDecoder,
        pixel_format: str,
        index: int,
        data: FrameData,
        context: dict[str, Any],
    ) -> None:
        planes = list(data) if isinstance(data, Planes) else [data]
        seen = digest(planes)
        sure = self.result.damaged_from is None or index < self.result.damaged_from
        reference = self.by_pyav if pixel_format == "native" else self.own(pixel_format)
        if index < len(reference.digests) and seen == reference.digests[index]:
            return
        if not sure and pixel_format == "native":
            # concealment differs from version to version: ask the FFmpeg inside
            reference = self.own("native")
            if index < len(reference.digests) and seen == reference.digests[index]:
                return
        if pixel_format == "native" and sure:
            expected = pyav_frame(self.path, index)
        else:
            with decoder._use() as reader:
                expected = own_frame(reader, pixel_format, decoder._orientation, index)
        kind = "native" if pixel_format == "native" else "rgb"
        self.add(kind, index, **first_difference(expected, planes), **context)


def first_difference(
    expected: list[NDArray[Any]] | None, got: list[NDArray[Any]]
) -> dict[str, Any]:
    """Where two pictures differ first, as fields of a `Mismatch`."""
    if expected is None:
        return {"detail": "the linear decode has no such frame"}
    shapes = [[plane.shape for plane in planes] for planes in (expected, got)]
    if shapes[0] != shapes[1]:
        return {"detail": f"shapes {shapes[1]}, in the linear decode {shapes[0]}"}
    for number, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
        where = np.argwhere(ours != theirs)
        if len(where):
            y, x = (int(v) for v in where[0][:2])
            at = tuple(where[0])
            return {
                "detail": f"{len(where)} samples of plane {number} differ, first x {x} y {y}: "
                f"{ours[at]} for {theirs[at]}",
                "plane": number,
                "x": x,
                "y": y,
                "expected": int(theirs[at]),
                "got": int(ours[at]),
            }
    return {"detail": "differed once, and not when decoded again"}
