"""`decode_batch`: frames of many files in one call."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseframes import errors
from sparseframes._binding import Reader, Request, get_batch, is_planar
from sparseframes._decoder import VideoDecoder
from sparseframes._fetch import Fetch
from sparseframes._indices import as_indices
from sparseframes._source import PathSource, make_source
from sparseframes._types import FrameData


@dataclass
class _Group:
    """The items of one source."""

    source: object
    options: dict[str, Any]
    items: list[int] = field(default_factory=list)
    decoder: VideoDecoder | None = None
    opened: bool = False
    """by this call, which closes it"""
    error: BaseException | None = None

    def open(self, wanted: Sequence[NDArray[np.int64]]) -> None:
        """Open the source and read all that tells what the items cost, but decode nothing."""
        if self.decoder is None:
            self.decoder = VideoDecoder(self.source, **self.options)
            self.opened = True
        if self.decoder._options["index"] == "lazy":
            self.decoder.plan(np.concatenate([wanted[k] for k in self.items]))
        else:
            len(self.decoder)


def decode_batch(
    items: Iterable[tuple[object, Any]],
    *,
    threads: int = 1,
    out: Sequence[Any] | None = None,
    **options: Any,
) -> list[FrameData]:
    """Frames of many sources, decoded side by side.

    Items of one source are decoded together, so that what they have in common is decoded once.
    All threads work on all items: an item's own independent pictures are spread over them, too.

    Args:
        items: pairs of a source and frame indices. A source is whatever `VideoDecoder` takes, or
            an open `VideoDecoder`, which stays open; other sources are opened for this call.
            Indices are as in `VideoDecoder.get_frames_at`.
        threads: threads to work in at most, the calling one included, 1 to 64. None is left when
            the call returns.
        out: where the pixels go: for each item an array as `get_frames_at` takes it, or None;
            after an error their contents are undefined.
        **options: for the sources that are opened: arguments of `VideoDecoder`.

    Returns:
        For each item, in their order, the ``data`` of what `get_frames_at` returns.

    Raises:
        SparseError: as `VideoDecoder` and `get_frames_at`, the message beginning with the number
            of the item, which is also the attribute ``item``. No item is returned then.

    Thread-safety: safe. A decoder among the sources is locked meanwhile.
    """
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 64:
        raise errors.ArgumentError(f"threads must be an integer from 1 to 64, not {threads!r}")
    pairs = list(items)
    places: Sequence[Any] = [None] * len(pairs) if out is None else out
    if len(places) != len(pairs):
        raise errors.ArgumentError(f"out must have a place for each of {len(pairs)} items")
    sources, wanted = [], []
    for k, pair in enumerate(pairs):
        try:
            source, indices = pair
        except (TypeError, ValueError):
            raise TypeError(f"item {k}: must be a pair of a source and indices") from None
        sources.append(source)
        try:
            wanted.append(as_indices(indices))
        except (TypeError, errors.SparseError) as error:
            raise _named(k, error) from error
    groups = _group(sources, options)
    try:
        _open_all(groups, wanted, threads)
        return _decode(groups, wanted, places, threads)
    finally:
        for group in groups:
            if group.opened and group.decoder is not None:
                group.decoder.close()


def _group(sources: Sequence[object], options: dict[str, Any]) -> list[_Group]:
    groups: dict[object, _Group] = {}
    for k, source in enumerate(sources):
        key: object = ("object", id(source))
        if not isinstance(source, VideoDecoder):
            try:
                made = make_source(source)
            except (TypeError, errors.SparseError) as error:
                raise _named(k, error) from error
            if isinstance(made, PathSource):
                key = ("path", made.encoded)
        group = groups.setdefault(key, _Group(source, options))
        group.items.append(k)
        if isinstance(source, VideoDecoder):
            group.decoder = source
    return list(groups.values())


def _open_all(groups: list[_Group], wanted: Sequence[NDArray[np.int64]], threads: int) -> None:
    """Open what is to be opened, in several threads if that takes more than a moment."""
    waiting = iter(groups)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                group = next(waiting, None)
            if group is None:
                return
            try:
                group.open(wanted)
            except BaseException as error:  # raised by the calling thread
                group.error = error

    cold = sum(group.decoder is None for group in groups)
    helpers = [threading.Thread(target=work) for _ in range(min(threads, cold) - 1)]
    try:
        for helper in helpers:
            helper.start()
        work()
    finally:
        with lock:
            waiting = iter(())
        for helper in helpers:
            if helper.ident is not None:
                helper.join()
    for group in groups:
        if isinstance(group.error, (errors.SparseError, TypeError)):
            raise _named(_culprit(group, wanted, group.error), group.error) from group.error
        if group.error is not None:
            raise group.error


def _decode(
    groups: list[_Group],
    wanted: Sequence[NDArray[np.int64]],
    places: Sequence[Any],
    threads: int,
) -> list[FrameData]:
    fetches: list[Fetch | None] = [None] * len(wanted)
    requests: list[Request] = []
    owners: list[_Group] = []
    with ExitStack() as stack:
        # in one order in all threads, so that two calls can't wait for each other
        for group in sorted(groups, key=lambda group: id(group.decoder)):
            assert group.decoder is not None
            try:
                reader = stack.enter_context(group.decoder._use())
            except errors.SparseError as error:
                raise _named(group.items[0], error) from error
            for request in _requests(group, group.decoder, reader, wanted, places, fetches):
                requests.append(request)
                owners.append(group)
        if requests:
            failure = get_batch(requests, threads)
            if failure is not None:
                number, cause = failure
                raise _named(_culprit(owners[number], wanted, cause), cause) from cause
        return [fetch.finish() for fetch in fetches if fetch is not None]


def _requests(
    group: _Group,
    decoder: VideoDecoder,
    reader: Reader,
    wanted: Sequence[NDArray[np.int64]],
    places: Sequence[Any],
    fetches: list[Fetch | None],
) -> Iterable[Request]:
    """What one reader is asked: one request for all items of the same size and form."""
    by_form: dict[tuple[int, int, str, bool], Request] = {}
    for k in group.items:
        try:
            indices = decoder._absolute(reader, wanted[k])
            with decoder._index_errors(reader):
                fetch = fetches[k] = decoder._prepare(reader, indices, places[k])
        except (TypeError, errors.SparseError) as error:
            raise _named(k, error) from error
        if not len(indices):
            continue
        form = (fetch.width, fetch.height, fetch.pixel_format, is_planar(fetch.batch))
        if form not in by_form:
            by_form[form] = Request(reader, decoder._format, fetch.width, fetch.height, [], [])
        by_form[form].indices.append(indices)
        by_form[form].batches.append(fetch.batch)
    return by_form.values()


def _culprit(group: _Group, wanted: Sequence[NDArray[np.int64]], error: BaseException) -> int:
    """The item that an error of a group is about."""
    frame = getattr(error, "frame", None)
    if frame is not None and len(group.items) > 1:
        for k in group.items:
            if (wanted[k] == frame).any():
                return k
    return group.items[0]


def _named(item: int, error: BaseException) -> Exception:
    """The same error, telling which item it is about."""
    message = f"item {item}: {error}"
    if isinstance(error, errors.SparseError):
        named = type(error)(message, file=error.file, frame=error.frame, code=error.code)
        named.item = item
        return named
    return TypeError(message)
