"""`VideoDecoder`: frames of one video stream by index or by time."""

from __future__ import annotations

import os
import re
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from sparseframes import errors
from sparseframes._binding import FILTERS, FORMATS, INDEX_MODES, Info, Layout, Reader
from sparseframes._cache import hash_key, shared_pool
from sparseframes._fetch import Fetch, native_fetch, pixel_fetch
from sparseframes._indices import Timeline, as_index, as_indices, as_seconds
from sparseframes._orientation import Orientation
from sparseframes._saved import Place, make_place
from sparseframes._source import FileSource, PathSource, make_source
from sparseframes._types import Frame, FrameBatch, FrameData, Plan, Planes, Stats
from sparseframes._types import VideoStreamMetadata as Metadata

DimensionOrder = Literal["NHWC", "NCHW"]
IndexMode = Literal["auto", "whole", "lazy", "decoded"]
PixelFormat = Literal["rgb24", "gray", "native"]
StalePolicy = Literal["refuse", "rebuild", "bypass"]

_CHANNELS = {"rgb24": 3, "gray": 1}
# threads of dav1d, where no argument tells
_DAV1D_THREADS = "SPARSEFRAMES_DAV1D_THREADS"
_MOST_DAV1D_THREADS = 256
# frames that iteration asks for at a time
_CHUNK = 8


class VideoDecoder:
    """Frames of one video stream, each exactly as one linear decode gives it.

    Frame k is the k-th that ``ffmpeg -i FILE -map 0:v:0 -fps_mode passthrough`` writes, edit lists
    and discarded frames included. A frame that can't be had exactly raises; none is guessed. A
    display matrix is applied to the pixels, except to native planes.

    Args:
        source: a path, the bytes of a file (bytes, bytearray, memoryview or a uint8 array, not
            copied and not to be changed while the decoder is open), or a binary file-like object
            with ``read(size)`` and ``seek(offset)``, whose position belongs to the decoder while
            it is open, and which it never closes.
        stream_index: index in the container of the stream to read; None for the first video.
        dimension_order: "NHWC", or "NCHW" for a view of the same memory with the channels first.
        pixel_format: "rgb24" (3 channels), "gray" (1 channel), both uint8; or "native" for the
            decoded planes with their own depth and subsampling, see `Planes`.
        threads: worker threads at most, 1 to 64.
        index: "auto" looks at the headers of all slices before the first request, where the
            container has a sample table, and where they leave no doubt that frames are numbered as
            the table tells, follows references only in the segments that requests touch; else it
            is as "whole", which follows them in the whole stream before the first request. "lazy"
            goes only over the segments that requests touch, without such a look at the others,
            and takes the table's word for the number of a frame: for remote or very long files.
            A linear decode numbers otherwise if packets elsewhere give it no frame: damaged ones,
            and leading pictures that it drops at a splice. "decoded" decodes the stream once to
            number its frames, and decodes from key frames afterwards: slow, and right where tiles
            of AV1 are damaged, which the others learn only when a request meets the damage.
        cache_key: what stands for the bytes of a source that is no path: decoders with equal keys
            share the pictures that are kept for later requests, see `set_cache_budget`, so their
            bytes must be equal, too. A path needs none: its file is known by device, inode, size
            and times. Without either, pictures are kept for this decoder alone.
        saved_index: where a saved index is taken from, in place of reading headers: None for
            nowhere; "auto" for FILE.sparse beside a file; the path of one; a folder of them; the
            path of one file for many that ends in ".sparseset"; or the bytes of one. `save_index`
            and ``sparseframes index`` make them. Where there is none, headers are read as ever.
        on_stale: what becomes of a saved index that is damaged, or was made for another state of
            the file or by another version: "refuse" raises SavedIndexError, "bypass" does without
            it, "rebuild" also puts a new one in its place if that can be written. The last two
            warn with SavedIndexWarning.
        dav1d_threads: for AV1, threads inside each of the `threads` decoders, 0 to 256, where 0 is
            as many as dav1d likes. None takes the environment variable
            ``SPARSEFRAMES_DAV1D_THREADS``, or 1 without it, which starts no thread at all. The
            pixels are the same.

        crop: (top, left, height, width) of the part of each frame that is wanted.
        resize: (height, width) of what is returned, from the cropped frame.
        resize_filter: "bicubic", "bilinear", "fast_bilinear", "neighbor", "area", "bicublin",
            "gauss", "sinc", "lanczos" or "spline", as in ffmpeg's ``scale=W:H:flags=``. Cropping
            and resizing are done as ``-vf crop=W:H:LEFT:TOP:exact=1,scale=W:H:flags=FILTER`` does
            them with rgb24 or gray after it: before the conversion, in one step with it. Where a
            display matrix turns frames, they are done before the turn, so that they hold for the
            frame as it is returned. Not for native planes.
        output_dtype: NumPy's uint8, 0 to 255, or float32, the same values divided by 255. Not for
            native planes.

    Thread-safety: a lock inside lets one thread at a time work; `close` waits for the others. After
    a fork a decoder of a path or of memory opens its source again in the child, one of a file-like
    object raises. A decoder of a path can be pickled: it is opened anew where it arrives.

    Raises:
        SourceError: the source can't be read or holds no video.
        UnsupportedError: its codec is not supported.
        ArgumentError: an option has a value that is not allowed.
        TypeError: the source is of no known kind.
    """

    def __init__(
        self,
        source: object,
        *,
        stream_index: int | None = None,
        dimension_order: DimensionOrder = "NHWC",
        pixel_format: PixelFormat = "rgb24",
        threads: int = 1,
        index: IndexMode = "auto",
        cache_key: str | bytes | None = None,
        dav1d_threads: int | None = None,
        crop: tuple[int, int, int, int] | None = None,
        resize: tuple[int, int] | None = None,
        resize_filter: str = "bicubic",
        output_dtype: Any = np.uint8,
        saved_index: object = None,
        on_stale: StalePolicy = "rebuild",
    ) -> None:
        _check_option("index", index, tuple(INDEX_MODES))
        _check_option("dimension_order", dimension_order, ("NHWC", "NCHW"))
        _check_option("pixel_format", pixel_format, tuple(FORMATS))
        if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 64:
            raise errors.ArgumentError(f"threads must be an integer from 1 to 64, not {threads!r}")
        if stream_index is not None and (
            isinstance(stream_index, bool) or not isinstance(stream_index, int) or stream_index < 0
        ):
            raise errors.ArgumentError(
                f"stream_index must be None or an integer from 0, not {stream_index!r}"
            )
        self._options: dict[str, Any] = {
            "stream_index": stream_index,
            "dimension_order": dimension_order,
            "pixel_format": pixel_format,
            "threads": threads,
            "index": index,
            "cache_key": cache_key,
            "dav1d_threads": dav1d_threads,
            "saved_index": saved_index,
            "on_stale": on_stale,
        }
        self._dav1d_threads = _dav1d_threads(dav1d_threads)
        _check_option("on_stale", on_stale, ("refuse", "rebuild", "bypass"))
        self._place = make_place(saved_index)
        self._key = hash_key(cache_key)
        _check_option("resize_filter", resize_filter, tuple(FILTERS))
        self._dtype = _check_dtype(output_dtype)
        self._crop = _check_numbers("crop", crop, 4)
        self._resize = _check_numbers("resize", resize, 2)
        self._options.update(
            crop=self._crop,
            resize=self._resize,
            resize_filter=resize_filter,
            output_dtype=self._dtype,
        )
        if pixel_format == "native" and (crop or resize or self._dtype is not np.uint8):
            raise errors.ArgumentError(
                "native planes can't be cropped, resized or converted to another type"
            )
        self._channels_first = dimension_order == "NCHW"
        self._format: str = pixel_format
        self._source = make_source(source)
        self._lock = threading.RLock()
        self._busy = False
        self._closed = False
        self._lost = False
        self._reader: Reader | None = None
        self._count: int | None = None
        self._table: NDArray[Any] | None = None
        self._timeline: Timeline | None = None
        info = self._live().info()
        self._orientation = Orientation(info.rotation, info.flip)
        self._info = info
        _decoders.add(self)

    # -- life -------------------------------------------------------------------------------

    def close(self) -> None:
        """Free the decoder, waiting for a read that goes on in another thread.

        A second call does nothing. Afterwards everything but `closed` and `close` raises
        `ClosedError`.
        """
        with self._lock:
            self._refuse_reentry()
            self._closed = True
            reader, self._reader = self._reader, None
            if reader is not None:
                reader.close()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def __enter__(self) -> VideoDecoder:
        if self._closed:
            raise self._closed_error()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._closed:
            raise self._closed_error()
        if not isinstance(self._source, PathSource):
            raise TypeError(
                f"a VideoDecoder of {self._source.name} can't be pickled: only one of a path can"
            )
        return _open_again, (os.path.abspath(self._source.path), self._options)  # noqa: PTH100

    def __repr__(self) -> str:
        info = self._info
        state = "closed" if self._closed else f"{info.codec} {info.width}x{info.height}"
        return f"<VideoDecoder {self._source.name!r}: {state}>"

    def _closed_error(self) -> errors.ClosedError:
        return errors.ClosedError(
            f"{self._source.name}: the decoder is closed", file=self._source.name
        )

    def _refuse_reentry(self) -> None:
        if self._busy:
            raise RuntimeError("the source of a decoder called back into the decoder")

    def _live(self) -> Reader:
        if self._closed:
            raise self._closed_error()
        if self._lost:
            raise errors.ClosedError(
                f"{self._source.name}: this decoder was opened before a fork, and its file-like "
                "source can't be shared with the parent process",
                file=self._source.name,
            )
        if self._reader is None:
            self._reader = self._open()
            self._set_conversion(self._reader)
        return self._reader

    def _set_conversion(self, reader: Reader) -> None:
        if self._crop is None and self._resize is None:
            return
        info = reader.info()
        orientation = Orientation(info.rotation, info.flip)
        crop, resize = None, None
        if self._crop is not None:
            top, left, down, across = self._crop
            width, height = orientation.size(info.width, info.height)
            if left + across > width or top + down > height:
                raise errors.ArgumentError(
                    f"{self._source.name}: a crop of {self._crop} reaches outside frames of "
                    f"{height} x {width}",
                    file=self._source.name,
                )
            crop = orientation.coded_rectangle((left, top, across, down), info.width, info.height)
        if self._resize is not None:
            resize = orientation.size(self._resize[1], self._resize[0])
        reader.set_conversion(crop, resize, self._options["resize_filter"])

    def _size(self, info: Info) -> tuple[int, int]:
        """Width and height of frames before they are turned, cropped and resized."""
        orientation = Orientation(info.rotation, info.flip)
        if self._resize is not None:
            return orientation.size(self._resize[1], self._resize[0])
        if self._crop is not None:
            return orientation.size(self._crop[3], self._crop[2])
        return info.width, info.height

    def _open(self) -> Reader:
        """A reader, with the saved index if there is one that fits."""
        if self._place is None:
            return self._open_with(None)
        try:
            found = self._place.find(self._source)
            return self._open_with(found)
        except (errors.SavedIndexError, OSError) as error:
            if self._options["on_stale"] == "refuse" or isinstance(error, errors.SourceError):
                raise
            reader = self._open_with(None)
            outcome = "it is not used"
            if self._options["on_stale"] == "rebuild" and isinstance(error, errors.SavedIndexError):
                outcome = self._rebuild(reader, self._place)
            warnings.warn(f"{error}; {outcome}", errors.SavedIndexWarning, stacklevel=4)
            return reader

    def _rebuild(self, reader: Reader, place: Place) -> str:
        """Make a new index in the place of one that doesn't fit; what came of it."""
        try:
            place.put(self._source, reader.export_index())
        except (errors.SparseError, OSError) as failure:
            return f"a new one can't be made: {failure}"
        return "a new one has been made"

    def _open_with(self, saved: str | bytes | None) -> Reader:
        return Reader(
            self._source,
            saved=saved,
            stream_index=self._options["stream_index"],
            threads=self._options["threads"],
            index=self._options["index"],
            pool=shared_pool(),
            key=self._key,
            dav1d_threads=self._dav1d_threads,
        )

    @contextmanager
    def _use(self) -> Iterator[Reader]:
        with self._lock:
            self._refuse_reentry()
            self._busy = True
            try:
                yield self._live()
            finally:
                self._busy = False

    def _after_fork(self) -> None:
        # the parent's threads are gone and its handle is the parent's
        self._lock = threading.RLock()
        self._busy = False
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.abandon()
        self._lost = isinstance(self._source, FileSource)

    # -- facts ------------------------------------------------------------------------------

    def __len__(self) -> int:
        with self._use() as reader:
            return self._frame_count(reader)

    @property
    def metadata(self) -> Metadata:
        """Facts of the stream; counts its frames, without decoding them."""
        with self._use() as reader:
            count = self._frame_count(reader)
            info = reader.info()
            begin = end = None
            if count:
                first = reader.frame_info(0, 1)[0]
                last = reader.frame_info(count - 1, 1)[0]
                begin = _known(first["pts_seconds"])
                end = _known(_end_seconds(info, last))
        return _make_metadata(info, self._size(info), count, begin, end)

    @property
    def stats(self) -> Stats:
        """Counters since the opening or the last `reset_stats`, as a copy."""
        with self._use() as reader:
            return Stats(**reader.stats())

    def reset_stats(self) -> None:
        """Set all counters to zero."""
        with self._use() as reader:
            reader.reset_stats()

    @property
    def key_frame_indices(self) -> list[int]:
        """Display indices of the frames whose packets are marked as key frames, ascending."""
        with self._use() as reader:
            return [int(k) for k in np.flatnonzero(self._frame_table(reader)["key"])]

    def _get_key_frame_indices(self) -> list[int]:
        """Torchcodec's name for `key_frame_indices`."""
        return self.key_frame_indices

    def build_index(self, progress: Callable[[float], object] | None = None) -> None:
        """Read the headers of the whole stream now rather than as requests need them.

        Args:
            progress: called now and then with the share done, 0 to 1. An exception from it stops
                the work and is raised here. It must not use the decoder.
        """
        with self._use() as reader:
            reader.build_index(progress)

    def save_index(
        self,
        path: str | os.PathLike[str] | None = None,
        progress: Callable[[float], object] | None = None,
    ) -> str:
        """Save the whole index, which is made first if need be.

        Args:
            path: of the file to write; an existing folder, or a name that ends in ".sparseset",
                as ``saved_index`` of the decoder. None: what ``saved_index`` was given as, else
                the file's own path with ".sparse" behind it.
            progress: as in `build_index`.

        Returns:
            The name of the file that was written: under another name first, then renamed.

        Raises:
            UnsupportedError: of this codec, or of AV1 that is decoded linearly, no index can
                be saved.
            OSError: it can't be written.
        """
        place = make_place(path) if path is not None else self._place or make_place("auto")
        assert place is not None
        with self._use() as reader:
            return place.put(self._source, reader.export_index(progress))

    def plan(self, indices: Any) -> Plan:
        """The pictures that these frames cost, without decoding them.

        Raises:
            IndexError: a frame is outside the stream.
        """
        wanted = as_indices(indices)
        with self._use() as reader:
            wanted = self._absolute(reader, wanted)
            with self._index_errors(reader):
                facts = reader.plan(wanted)
        return Plan(
            facts.targets, facts.reconstruct, facts.bytes, facts.linear_count, facts.references
        )

    # -- frames by index --------------------------------------------------------------------

    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> FrameData: ...

    @overload
    def __getitem__(self, key: slice) -> FrameData: ...

    def __getitem__(self, key: Any) -> FrameData:
        """Pixels of one frame [H, W, C], or of a slice of frames [N, H, W, C]."""
        if isinstance(key, slice):
            parts = (key.start, key.stop, key.step)
            start, stop, step = (None if part is None else as_index(part) for part in parts)
            return self.get_frames_in_range(start, stop, step).data
        return self.get_frame_at(as_index(key)).data

    def __iter__(self) -> Iterator[FrameData]:
        count = len(self)
        for first in range(0, count, _CHUNK):
            indices = range(first, min(first + _CHUNK, count))
            try:
                batch: FrameBatch | None = self.get_frames_at(indices)
            except (errors.UnsupportedError, errors.DecodeError):
                # a size that changes, or damage: as far as it goes, one by one
                batch = None
            if batch is None:
                yield from (self.get_frame_at(index).data for index in indices)
            else:
                yield from (frame.data for frame in batch)

    def get_frame_at(self, index: int) -> Frame:
        """The frame at a display index; negative ones count from the end.

        Raises:
            IndexError: the index is outside the stream.
            DecodeError: the data that the frame depends on is damaged.
            UnsupportedError: the frame can't be had exactly.
        """
        return self.get_frames_at([as_index(index)])[0]

    def get_frames_at(self, indices: Any, out: Any = None) -> FrameBatch:
        """Frames at display indices, in the order asked for; repeats are decoded once.

        Args:
            indices: integers [N]; negative ones count from the end.
            out: where the pixels go, instead of a new array: a writable uint8 array of the very
                shape that would be returned, with any strides (for native planes a sequence of one
                array a plane). It becomes the batch's ``data``; after an error its contents are
                undefined.

        Raises:
            IndexError, DecodeError, UnsupportedError: as `get_frame_at`. Frames of different sizes
                don't go into one batch and are an UnsupportedError.
            ArgumentError: out has another shape or type, or can't be written.
        """
        wanted = as_indices(indices)
        with self._use() as reader:
            wanted = self._absolute(reader, wanted)
            return self._fetch(reader, wanted, out)

    def get_frames_in_range(
        self, start: int | None, stop: int | None, step: int | None = 1
    ) -> FrameBatch:
        """Frames of ``range(start, stop, step)``, clamped to the stream as slices are."""
        if step == 0:
            raise errors.ArgumentError("step must not be 0")
        with self._use() as reader:
            key = slice(start, stop, step).indices(self._frame_count(reader))
            return self._fetch(reader, np.array(range(*key), np.int64), None)

    def get_all_frames(self) -> FrameBatch:
        """All frames of the stream, which have to fit into memory."""
        return self.get_frames_in_range(None, None)

    def get_batch(self, indices: Any) -> FrameData:
        """Pixels at display indices as [N, H, W, C] whatever the dimension order: decord's call."""
        data = self.get_frames_at(indices).data
        if self._channels_first and not isinstance(data, Planes):
            data = data.transpose(0, 2, 3, 1)
        return data

    # -- frames by time ---------------------------------------------------------------------

    def get_frame_played_at(self, seconds: float) -> Frame:
        """The frame shown at a time: pts <= seconds < the next frame's pts.

        Raises:
            IndexError: before the first frame, or after the end of the last one.
            UnsupportedError: the stream has no timestamps.
        """
        return self.get_frames_played_at([seconds])[0]

    def get_frames_played_at(self, seconds: Any, out: Any = None) -> FrameBatch:
        """Frames shown at times [N], in the order asked for. Errors: as `get_frame_played_at`."""
        times = [as_seconds(value) for value in seconds]
        with self._use() as reader:
            timeline = self._times(reader)
            wanted = np.zeros(len(times), np.int64)
            for k, time in enumerate(times):
                found = timeline.find(time)
                if found is None:
                    raise errors.IndexError(
                        f"{self._source.name}: no frame is shown at {time} s; the stream goes from "
                        f"{timeline.begin} s to {timeline.end} s",
                        file=self._source.name,
                    )
                wanted[k] = found
            return self._fetch(reader, wanted, out)

    def get_frames_played_in_range(self, start_seconds: float, stop_seconds: float) -> FrameBatch:
        """Frames shown in the half-open range [start, stop); none when both are equal.

        These are the frame shown at the start and all that begin before the stop.

        Raises:
            ArgumentError: start is after stop, or the range reaches outside the stream.
            UnsupportedError: the stream has no timestamps.
        """
        start, stop = as_seconds(start_seconds), as_seconds(stop_seconds)
        if not start <= stop:
            raise errors.ArgumentError(f"start_seconds {start} is after stop_seconds {stop}")
        with self._use() as reader:
            timeline = self._times(reader)
            if not timeline.begin <= start < timeline.end:
                raise errors.ArgumentError(
                    f"start_seconds {start} is outside the stream, from {timeline.begin} s to "
                    f"before {timeline.end} s"
                )
            if stop > timeline.end:
                raise errors.ArgumentError(
                    f"stop_seconds {stop} is after the end of the stream at {timeline.end} s"
                )
            wanted = timeline.between(start, stop) if start < stop else np.zeros(0, np.int64)
            return self._fetch(reader, wanted, None)

    # -- inside, with the lock held ---------------------------------------------------------

    def _frame_count(self, reader: Reader) -> int:
        if self._count is None or self._options["index"] == "lazy":
            # a lazy index may have found that the container's numbers are wrong
            count = reader.frame_count()
            if count != self._count:
                self._count, self._table, self._timeline = count, None, None
        assert self._count is not None
        return self._count

    def _frame_table(self, reader: Reader) -> NDArray[Any]:
        if self._table is None:
            self._table = reader.frame_info(0, self._frame_count(reader))
        return self._table

    def _times(self, reader: Reader) -> Timeline:
        if self._timeline is None:
            table = self._frame_table(reader)
            pts = np.ascontiguousarray(table["pts_seconds"], np.float64)
            if not len(pts) or np.isnan(pts).all():
                raise errors.UnsupportedError(
                    f"{self._source.name}: the stream has no timestamps", file=self._source.name
                )
            self._timeline = Timeline(pts, _end_seconds(self._info, table[-1]))
        return self._timeline

    def _absolute(self, reader: Reader, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        negative = indices < 0
        if negative.any():
            count = self._frame_count(reader)
            absolute = np.where(negative, indices + count, indices)
            outside = np.flatnonzero((absolute < 0) | (absolute >= count))
            if len(outside):
                raise self._index_error(int(indices[outside[0]]), count)
            return np.ascontiguousarray(absolute, np.int64)
        if self._count is not None and len(indices) and int(indices.max()) >= self._count:
            first = int(np.flatnonzero(indices >= self._count)[0])
            raise self._index_error(int(indices[first]), self._count)
        return indices

    def _index_error(self, index: int, count: int) -> errors.IndexError:
        return errors.IndexError(
            f"{self._source.name}: there is no frame {index}: the stream has {count}",
            file=self._source.name,
            frame=index,
        )

    @contextmanager
    def _index_errors(self, reader: Reader) -> Iterator[None]:
        """Name index and length in the library's index errors."""
        try:
            yield
        except errors.IndexError as error:
            if error.frame is None:
                raise
            # damage that decoding has met may have made the stream shorter
            self._count = self._table = self._timeline = None
            raise self._index_error(error.frame, self._frame_count(reader)) from None

    def _fetch(self, reader: Reader, indices: NDArray[np.int64], out: Any) -> FrameBatch:
        with self._index_errors(reader):
            fetch = self._prepare(reader, indices, out)
            reader.get_frames(indices, self._format, fetch.batch, fetch.width, fetch.height)
            data = fetch.finish()
            table = reader.frame_info_at(indices) if self._table is None else self._table[indices]
        return FrameBatch(
            data,
            np.array(table["pts_seconds"], np.float64),
            np.array(table["duration_seconds"], np.float64),
            indices,
        )

    def _prepare(self, reader: Reader, indices: NDArray[np.int64], out: Any) -> Fetch:
        """Room for these frames."""
        layout = self._layout(reader, indices)
        if self._format == "native":
            return native_fetch(len(indices), layout, out)
        return pixel_fetch(
            len(indices),
            layout,
            _CHANNELS[self._format],
            self._orientation,
            out,
            channels_first=self._channels_first,
            dtype=self._dtype,
        )

    def _layout(self, reader: Reader, indices: NDArray[np.int64]) -> Layout:
        if len(indices):
            return reader.layout(int(indices[0]), self._format)
        if self._format == "native" and self._frame_count(reader):
            return reader.layout(0, self._format)
        info = self._info
        width, height = self._size(info)
        return Layout(width, height, (), 0, info.pixel_format, info.bits_per_component)


_decoders: weakref.WeakSet[VideoDecoder] = weakref.WeakSet()


def _forget_in_child() -> None:
    for decoder in list(_decoders):
        decoder._after_fork()


os.register_at_fork(after_in_child=_forget_in_child)


def _open_again(path: Any, options: dict[str, Any]) -> VideoDecoder:
    return VideoDecoder(path, **options)


def _dav1d_threads(argument: int | None) -> int:
    """Threads of dav1d, by the argument or the environment."""
    if argument is not None:
        if (
            isinstance(argument, bool)
            or not isinstance(argument, int)
            or not 0 <= argument <= _MOST_DAV1D_THREADS
        ):
            raise errors.ArgumentError(
                f"dav1d_threads must be None or an integer from 0 to {_MOST_DAV1D_THREADS}, "
                f"not {argument!r}"
            )
        return argument
    value = os.environ.get(_DAV1D_THREADS)
    if value is None:
        return 1
    # digits of other scripts are no number here
    if re.fullmatch("[0-9]{1,9}", value) is None or int(value) > _MOST_DAV1D_THREADS:
        raise errors.ArgumentError(
            f"the environment variable {_DAV1D_THREADS} must be a number from 0 to "
            f"{_MOST_DAV1D_THREADS}, not {value!r}"
        )
    return int(value)


def _check_option(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise errors.ArgumentError(
            f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}"
        )


def _end_seconds(info: Info, last: Any) -> float:
    """When a frame ends, rounded once: NaN if its time is not known."""
    if np.isnan(last["pts_seconds"]):
        return float("nan")
    ticks = int(last["pts"]) + int(last["duration"])
    return ticks * info.time_base_num / info.time_base_den


def _check_numbers(name: str, value: Any, count: int) -> Any:
    """A tuple of sizes, None for none; places may be 0."""
    if value is None:
        return None
    numbers = tuple(as_index(number) for number in value)
    if len(numbers) != count:
        raise errors.ArgumentError(f"{name} must have {count} numbers, not {len(numbers)}")
    if min(numbers[-2:]) < 1 or min(numbers) < 0 or max(numbers) > 1 << 20:
        raise errors.ArgumentError(f"{name} can't be {numbers}")
    return numbers


def _check_dtype(value: Any) -> type[np.generic]:
    for dtype in (np.uint8, np.float32):
        if np.dtype(value) == dtype:
            return dtype
    raise errors.ArgumentError(f"output_dtype must be uint8 or float32, not {value!r}")


def _known(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _make_metadata(
    info: Info, size: tuple[int, int], count: int, begin: float | None, end: float | None
) -> Metadata:
    orientation = Orientation(info.rotation, info.flip)
    width, height = orientation.size(*size)
    return Metadata(
        duration_seconds_from_header=info.duration_seconds or None,
        begin_stream_seconds_from_header=info.begin_seconds,
        bit_rate=float(info.bit_rate) or None,
        codec=info.codec or None,
        stream_index=info.stream_index,
        begin_stream_seconds_from_content=begin,
        end_stream_seconds_from_content=end,
        width=width,
        height=height,
        num_frames_from_header=info.frame_count_header if info.frame_count_header >= 0 else None,
        num_frames_from_content=count,
        average_fps_from_header=info.average_fps or None,
        pixel_aspect_ratio=Fraction(info.sar_num, info.sar_den)
        if info.sar_num and info.sar_den
        else None,
        rotation=orientation.counter_clockwise,
        flip=info.flip,
        color_primaries=_named(info.color_primaries),
        color_space=_named(info.color_space),
        color_transfer_characteristic=_named(info.color_transfer),
        color_range=_named(info.color_range),
        pixel_format=info.pixel_format or None,
        profile=info.profile or None,
        container=info.container,
        sparse=info.sparse,
    )


def _named(text: str) -> str | None:
    return None if text in ("", "unknown") else text
