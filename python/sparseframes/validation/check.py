"""One file under test: its requests are made and held against the linear decodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparseframes import errors
from sparseframes._cache import clear_cache
from sparseframes._decoder import VideoDecoder
from sparseframes._types import FrameData, Planes
from sparseframes.validation.options import Options
from sparseframes.validation.reference import (
    MAX_FRAMES,
    Reference,
    UnreadableError,
    digest,
    own_frame,
    own_reference,
    pyav_frame,
    pyav_reference,
)
from sparseframes.validation.requests import Request, Structure, make_requests
from sparseframes.validation.results import FileResult, Mismatch

PixelFormat = Literal["native", "rgb24"]

# frames that are shown before a damaged one, but decoded after it and from it
REORDER = 16
# a file that fails everywhere needn't say so a thousand times
MAX_MISMATCHES = 20


def check_file(
    path: str,
    options: Options,
    *,
    thread_type: str = "NONE",
    progress: Callable[[float], object] | None = None,
) -> FileResult:
    """Check one file.

    Args:
        path: the file.
        options: what to ask of it.
        thread_type: PyAV's threading, "NONE", "SLICE" or "FRAME"; always one thread.
        progress: called with the share of the requests done, 0 to 1.
    """
    begun = time.monotonic()
    result = FileResult(path)
    check = _Check(path, options, result)
    try:
        check.run(thread_type, progress or (lambda _: None))
    finally:
        check.close()
        result.seconds = round(time.monotonic() - begun, 3)
    return result


class _Check:
    """The decoders of one file, the references, and what is found."""

    def __init__(self, path: str, options: Options, result: FileResult) -> None:
        self.path = path
        self.options = options
        self.result = result
        self.saved: bytes | None = None
        self.open: dict[tuple[str, str], VideoDecoder] = {}
        self.by_pyav = Reference()
        self.by_own: dict[str, Reference] = {}
        self.table: NDArray[Any] | None = None

    def close(self) -> None:
        for decoder in self.open.values():
            decoder.close()
        self.open.clear()

    def new_decoder(self, pixel_format: PixelFormat) -> VideoDecoder:
        if self.options.saved_index and not self.saved:
            with VideoDecoder(self.path) as decoder:
                if decoder._info.sparse and decoder._info.codec in ("h264", "hevc"):
                    with decoder._use() as reader:
                        self.saved = reader.export_index()
        return VideoDecoder(
            self.path,
            pixel_format=pixel_format,
            threads=self.options.threads,
            saved_index=self.saved,
            on_stale="refuse",
        )

    def decoder(self, pixel_format: PixelFormat, use: str = "any") -> VideoDecoder:
        """The decoder that all requests of this use share."""
        key = (pixel_format, use)
        if key not in self.open:
            self.open[key] = self.new_decoder(pixel_format)
        return self.open[key]

    def own(self, pixel_format: PixelFormat) -> Reference:
        if pixel_format not in self.by_own:
            decoder = self.decoder(pixel_format)
            with decoder._use() as reader:
                self.by_own[pixel_format] = own_reference(
                    reader, pixel_format, decoder._orientation
                )
        return self.by_own[pixel_format]

    # -- the series -----------------------------------------------------------------------------

    def run(self, thread_type: str, progress: Callable[[float], object]) -> None:
        result, options = self.result, self.options
        unreadable = ""
        try:
            self.by_pyav = pyav_reference(self.path, thread_type=thread_type)
        except UnreadableError as error:
            unreadable = str(error)
        result.codec = self.by_pyav.codec
        try:
            count = len(self.decoder("native"))
            own = self.own("native" if options.pixels == "native" else "rgb24")
        except errors.SparseError as error:
            result.reason = str(error)
            nothing = unreadable or not self.by_pyav.digests
            result.status = "unreadable" if nothing else "refused"
            return
        if unreadable:
            result.status, result.reason = "unreadable", unreadable
            return
        result.notes = [f"PyAV: {text}" for text in self.by_pyav.errors]
        result.notes += [f"linear: {text}" for text in own.errors]
        starts = [r.damaged_from for r in (self.by_pyav, own) if r.damaged_from is not None]
        result.damaged_from = min(starts, default=None)
        result.frames = len(own.digests)
        if not count and not own.digests:
            result.status = "unreadable"
            result.reason = f"{self.path}: no frame comes out of it"
            if self.by_pyav.digests:
                result.reason += f", though {len(self.by_pyav.digests)} of PyAV's FFmpeg"
            return
        self.compare_counts(count, own)
        self.series(count, progress)
        if result.mismatches:
            result.status = "mismatch"
            result.reason = result.mismatches[0].detail

    def series(self, count: int, progress: Callable[[float], object]) -> None:
        options, result = self.options, self.result
        stream = self.structure(count)
        requests = make_requests(
            stream,
            options.requests,
            options.frames_per_request,
            f"{options.seed}/{stream.count}",
            patterns=options.patterns,
            exact_size=options.exact_size,
        )
        until = time.monotonic() + options.seconds if options.seconds else float("inf")
        for number, request in enumerate(requests):
            self.request(number, request)
            progress((number + 1) / len(requests))
            if len(result.mismatches) >= MAX_MISMATCHES or time.monotonic() > until:
                break

    def structure(self, count: int) -> Structure:
        """What the requests are drawn from, of the frames that have a reference."""
        decoder = self.decoder("native")
        try:
            with decoder._use() as reader:
                self.table = reader.frame_info(0, count)
        except errors.SparseError:
            return Structure(min(count, MAX_FRAMES))
        table = self.table[:MAX_FRAMES]
        return Structure.of(table["picture"].tolist(), (table["key"] != 0).tolist())

    def compare_counts(self, count: int, own: Reference) -> None:
        if self.result.damaged_from is not None:
            # which frames damage swallows shows only when they are decoded, and versions of FFmpeg
            # differ in it
            return
        counts = {
            "the decoder": count,
            "its linear decode": len(own.digests),
            "PyAV's linear decode": len(self.by_pyav.digests),
        }
        if min(counts.values()) < MAX_FRAMES and len(set(counts.values())) > 1:
            text = ", ".join(f"{name} has {value}" for name, value in counts.items())
            self.add("count", -1, f"numbers of frames differ: {text}", number=-1)

    def add(self, kind: str, index: int, detail: str, *, number: int, **more: Any) -> None:
        if self.table is not None and 0 <= index < len(self.table):
            row = self.table[index]
            more["picture"] = int(row["picture"])
            more["picture_type"] = _letter(row["picture_type"])
        options = self.options
        self.result.mismatches.append(
            Mismatch(
                self.path,
                kind,
                index,
                detail,
                number=number,
                seed=options.seed,
                command=options.command(self.path, max(1, number + 1)),
                **more,
            )
        )

    # -- one request ----------------------------------------------------------------------------

    def request(self, number: int, request: Request) -> None:
        """Make one request in the formats that are its turn.

        Every other one goes to a decoder of its own, the rest to one that all share, with what
        the requests before have left in it.
        """
        result, patterns = self.result, self.options.patterns
        result.requests += 1
        result.patterns[request.pattern] = result.patterns.get(request.pattern, 0) + 1
        # the number of patterns may be even: every pattern has each turn
        turn = number + number // len(patterns)
        formats: tuple[PixelFormat, ...] = ("native", "rgb24")
        if self.options.pixels == "alternate":
            formats = (formats[turn // 2 % 2],)
        elif self.options.pixels != "both":
            formats = (self.options.pixels,)  # type: ignore[assignment]
        for k, pixel_format in enumerate(formats):
            context = {"number": number, "pattern": request.pattern}
            if request.one_by_one:
                decoder = self.decoder(pixel_format, "after")
                for position, index in enumerate(request.indices):
                    so_far = {**context, "request": request.indices[: position + 1]}
                    self.ask([index], decoder, pixel_format, so_far, fresh=False)
                continue
            context["request"] = request.indices
            if turn % 2 and k == 0:
                # what other decoders have left would make it cheaper
                clear_cache()
                with self.new_decoder(pixel_format) as decoder:
                    self.ask(request.indices, decoder, pixel_format, context, fresh=True)
            else:
                decoder = self.decoder(pixel_format)
                self.ask(request.indices, decoder, pixel_format, context, fresh=False)

    def ask(
        self,
        indices: Sequence[int],
        decoder: VideoDecoder,
        pixel_format: PixelFormat,
        context: dict[str, Any],
        *,
        fresh: bool,
    ) -> None:
        try:
            plan = decoder.plan(indices)
        except (errors.DecodeError, errors.IndexError) as error:
            self.judge_raise(indices, error, context)
            return
        except errors.SparseError as error:
            self.add("raised", -1, f"the plan: {error}", **context)
            return
        context["closure"] = tuple(plan.reconstruct.tolist())
        before = decoder.stats.pictures_reconstructed
        frames = self.get(decoder, pixel_format, indices, context)
        if frames is None:
            return
        cost = decoder.stats.pictures_reconstructed - before
        with decoder._use() as reader:  # AV1 may turn out to be read linearly
            sparse = reader.info().sparse
        if sparse and self.result.damaged_from is None:
            allowed = len(plan.reconstruct)
            if fresh:
                self.result.reconstructed += cost
                self.result.planned += allowed
            if cost > allowed or (fresh and cost != allowed):
                detail = f"{cost} pictures reconstructed for a closure of {allowed}"
                self.add("cost", -1, detail, **context)
        for index, data in frames:
            self.compare(decoder, pixel_format, index, data, context)

    def get(
        self,
        decoder: VideoDecoder,
        pixel_format: PixelFormat,
        indices: Sequence[int],
        context: dict[str, Any],
    ) -> list[tuple[int, FrameData]] | None:
        """The frames of a request: together, or one by one where that can't be."""
        try:
            batch = decoder.get_frames_at(indices)
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
        else:
            self.result.returned += len(batch)
            got = [frame.index for frame in batch]
            if got != list(indices):
                self.add("count", -1, f"frames {got} were returned", **context)
            return [(frame.index, frame.data) for frame in batch]
        for index in dict.fromkeys(indices):
            for _, data in self.get(decoder, pixel_format, [index], context) or []:
                self.compare(decoder, pixel_format, index, data, context)
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
        pixel_format: PixelFormat,
        index: int,
        data: FrameData,
        context: dict[str, Any],
    ) -> None:
        self.result.checked += 1
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


def _letter(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else chr(int(value))
