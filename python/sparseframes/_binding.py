"""The C library's functions as Python ones: handles, buffers and codes, nothing more.

A `Reader` is for one thread at a time; `VideoDecoder` holds the lock. The interpreter's lock is
released during every call.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseframes import errors
from sparseframes._native import ffi, lib
from sparseframes._source import FileSource, MemorySource, PathSource, Source

_log = logging.getLogger("sparseframes")
# without a handler of the application's nothing is said
_log.addHandler(logging.NullHandler())

FORMATS = {
    "rgb24": lib.SPARSE_FORMAT_RGB24,
    "gray": lib.SPARSE_FORMAT_GRAY,
    "native": lib.SPARSE_FORMAT_NATIVE,
}

FILTERS = {
    name: getattr(lib, f"SPARSE_FILTER_{name.upper()}")
    for name in (
        "bicubic",
        "bilinear",
        "fast_bilinear",
        "neighbor",
        "area",
        "bicublin",
        "gauss",
        "sinc",
        "lanczos",
        "spline",
    )
}

INDEX_MODES = {
    "auto": lib.SPARSE_INDEX_AUTO,
    "whole": lib.SPARSE_INDEX_WHOLE,
    "lazy": lib.SPARSE_INDEX_LAZY,
    "decoded": lib.SPARSE_INDEX_DECODED,
}

_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
_NO_PTS = -(1 << 63)


def _struct_dtype(name: str) -> np.dtype[Any]:
    """A C struct of numbers as a NumPy record type."""
    kind = ffi.typeof(name)
    names, formats, offsets = [], [], []
    for field, value in kind.fields:
        item = value.type
        letter = "f" if item.cname == "double" else "i"
        names.append(field)
        formats.append("S1" if item.cname == "char" else f"{letter}{ffi.sizeof(item)}")
        offsets.append(value.offset)
    return np.dtype(
        {
            "names": names,
            "formats": formats,
            "offsets": offsets,
            "itemsize": ffi.sizeof(kind),
        }
    )


FRAME_INFO = _struct_dtype("SparseFrameInfo")
"""Record type of `Reader.frame_info`: pts, duration, pts_seconds, duration_seconds, picture, key,
picture_type."""


@ffi.def_extern(name="sparse_py_read", error=-1)  # type: ignore[untyped-decorator]
def _read(user: Any, buffer: Any, offset: int, size: int) -> int:
    source: FileSource = ffi.from_handle(user)
    try:
        return source.read_into(ffi.buffer(buffer, size), offset)
    except BaseException as error:  # raised again after the C call
        source.failure = source.failure or error
        return -1


@ffi.def_extern(name="sparse_py_size", error=-1)  # type: ignore[untyped-decorator]
def _size(user: Any) -> int:
    source: FileSource = ffi.from_handle(user)
    try:
        return source.size()
    except BaseException as error:  # raised again after the C call
        source.failure = source.failure or error
        return -1


@ffi.def_extern(name="sparse_py_log")  # type: ignore[untyped-decorator]
def _log_line(user: Any, level: int, line: Any) -> None:
    _log.log(_LEVELS[min(max(level, 0), 3)], "%s", _text(line).rstrip())


class _Progress:
    def __init__(self, callback: Callable[[float], object]) -> None:
        self.callback = callback
        self.failure: BaseException | None = None


@ffi.def_extern(name="sparse_py_progress", error=1)  # type: ignore[untyped-decorator]
def _progress(user: Any, share: float) -> int:
    progress: _Progress = ffi.from_handle(user)
    try:
        progress.callback(share)
    except BaseException as error:  # raised again after the C call
        progress.failure = error
        return 1
    return 0


def _wanted_level() -> int:
    """The most of `_LEVELS` that the logger would take: each line costs a call into Python."""
    return max((k for k, level in enumerate(_LEVELS) if _log.isEnabledFor(level)), default=0)


def _in_words(failure: BaseException) -> str:
    """An exception of somebody else's, briefly: what it says may be long, or another failure."""
    name = type(failure).__name__
    try:
        said = " ".join(str(failure).split())[:200]
    except Exception:
        return name
    return f"{name}: {said}" if said else name


def _text(pointer: Any) -> str:
    if pointer == ffi.NULL:
        return ""
    text: str = ffi.string(pointer).decode("utf-8", "replace")
    return text


def library_version() -> str:
    """Version of the C library, "0.1.0"."""
    return _text(lib.sparse_version())


def ffmpeg_version() -> str:
    """The FFmpeg inside and its patch series, "7.1.5+sparse"."""
    return _text(lib.sparse_ffmpeg_version())


@dataclass(frozen=True)
class Info:
    """What the container and the parameter sets say of a stream; see sparse.h."""

    container: str
    codec: str
    profile: str
    pixel_format: str
    stream_index: int
    sparse: bool
    width: int
    height: int
    rotation: int
    flip: bool
    frame_count_header: int
    packet_count: int
    average_fps: float
    duration_seconds: float
    begin_seconds: float
    bit_rate: int
    sar_num: int
    sar_den: int
    bits_per_component: int
    color_range: str
    color_space: str
    color_primaries: str
    color_transfer: str
    time_base_num: int
    time_base_den: int
    source_size: int
    saved: bool


@dataclass(frozen=True)
class PlaneLayout:
    """One plane of a packed picture: shape in samples, offset and length in bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int
    size: int


@dataclass(frozen=True)
class Layout:
    """Shape of a picture in one format, and the bytes it takes when packed."""

    width: int
    height: int
    planes: tuple[PlaneLayout, ...]
    size: int
    pixel_format: str
    depth: int


@dataclass(frozen=True)
class PlanFacts:
    """What a plan says; arrays of int64, ids of pictures in decode order."""

    targets: NDArray[np.int64]
    reconstruct: NDArray[np.int64]
    bytes: int
    linear_count: int
    references: dict[int, tuple[int, ...]]


def _make_layout(raw: Any) -> Layout:
    planes = []
    for k in range(raw.plane_count):
        plane = raw.planes[k]
        channels = max(plane.channels, 1)
        dtype = np.dtype("u1")
        if plane.bytes_per_sample % (2 * channels) == 0:
            dtype = np.dtype(f"<u{plane.bytes_per_sample // channels}")
        elif plane.bytes_per_sample % channels:
            # packed bits, like rgb565: whole pixels as numbers
            channels, dtype = 1, np.dtype(f"<u{plane.bytes_per_sample}")
        shape: tuple[int, ...] = (plane.height, plane.width)
        if channels > 1:
            shape = (*shape, channels)
        planes.append(
            PlaneLayout(shape, dtype, plane.offset, plane.row_bytes * plane.height),
        )
    return Layout(
        raw.width, raw.height, tuple(planes), raw.size, _text(raw.pixel_format), raw.component_depth
    )


class Pool:
    """Idle decoders and kept pictures that readers share. Safe in several threads."""

    def __init__(self, budget: int) -> None:
        handle = ffi.new("SparsePool **")
        error = ffi.new("SparseError *")
        code = lib.sparse_pool_create(handle, budget, error)
        if code < 0:
            raise errors.from_code(code, _text(error.message), file="", frame=None)
        # readers hold references of their own
        self._handle: Any = ffi.gc(handle, lib.sparse_pool_release)

    @property
    def pointer(self) -> Any:
        """The C handle."""
        return self._handle[0]

    def abandon(self) -> None:
        """Forget the handle without a call into C: for a child process after a fork."""
        ffi.gc(self._handle, None)

    def set_budget(self, budget: int) -> None:
        """Bytes of pictures to keep at most."""
        lib.sparse_pool_set_budget(self.pointer, budget)

    def clear(self) -> None:
        """Free all that nobody uses."""
        lib.sparse_pool_clear(self.pointer)

    def facts(self) -> dict[str, int]:
        """The members of SparsePoolFacts by name."""
        raw = ffi.new("SparsePoolFacts *")
        lib.sparse_pool_facts(self.pointer, raw)
        return {
            name: getattr(raw, name) for name, _ in ffi.typeof(raw[0]).fields if name != "reserved"
        }


class Reader:
    """An open reader. Not for use by two threads at a time.

    saved is a saved index: the name of its file, or its bytes.

    Without a pool it has one of its own, which keeps no pictures. key, at most 32 bytes, stands
    for the bytes of a source that is no path.
    """

    def __init__(
        self,
        source: Source,
        *,
        stream_index: int | None,
        threads: int,
        index: str = "auto",
        pool: Pool | None = None,
        key: bytes = b"",
        dav1d_threads: int = 1,
        saved: str | bytes | None = None,
    ) -> None:
        self.source = source
        self._error = ffi.new("SparseError *")
        settings = ffi.new("SparseSettings *")
        lib.sparse_default_settings(settings)
        if stream_index is not None:
            settings.stream_index = stream_index
        settings.threads = threads
        settings.dav1d_threads = dav1d_threads
        settings.index_mode = INDEX_MODES[index]
        settings.log = lib.sparse_py_log
        settings.log_level = _wanted_level()
        name = ffi.new("char[]", source.name.encode("utf-8", "surrogateescape"))
        settings.name = name
        if pool is not None:
            settings.pool = pool.pointer
        if key:
            settings.key = key_bytes = ffi.from_buffer("uint8_t[]", key)
            settings.key_size = len(key_bytes)
        # all that the C side points to
        keep: list[Any] = [name, source]
        if isinstance(saved, str):
            saved_path = ffi.new("char[]", os.fsencode(saved))
            settings.saved_path = saved_path
        elif saved is not None:
            saved_data = ffi.from_buffer("uint8_t[]", saved)
            settings.saved_data = saved_data
            settings.saved_size = len(saved_data)
            keep.append(saved_data)
        handle = ffi.new("SparseReader **")
        if isinstance(source, PathSource):
            path = ffi.new("char[]", source.encoded)
            code = lib.sparse_open_path(handle, path, settings, self._error)
        elif isinstance(source, MemorySource):
            data = ffi.from_buffer("uint8_t[]", source.view)
            keep.append(data)
            code = lib.sparse_open_memory(handle, data, len(data), settings, self._error)
        else:
            io = ffi.new("SparseIO *")
            io.user = user = ffi.new_handle(source)
            io.read = lib.sparse_py_read
            io.size = lib.sparse_py_size
            keep.append(user)
            code = lib.sparse_open_io(handle, io, settings, self._error)
        self._check(code)

        def close(handle: Any, _keep: list[Any] = keep) -> None:
            lib.sparse_close(handle)

        # closes what nobody closed, and holds until then what C points to
        self._handle: Any = ffi.gc(handle, close)

    @property
    def _reader(self) -> Any:
        if self._handle is None:
            raise errors.ClosedError("the decoder is closed", file=self.source.name)
        return self._handle[0]

    def close(self) -> None:
        """Free everything; a second call does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            ffi.release(handle)

    def abandon(self) -> None:
        """Forget the handle without a call into C: for a child process after a fork."""
        if self._handle is not None:
            ffi.gc(self._handle, None)
            self._handle = None

    def _check(self, code: int, told: Any = None) -> int:
        failure = None
        if isinstance(self.source, FileSource):
            failure, self.source.failure = self.source.failure, None
            if failure is not None and not isinstance(failure, Exception):
                raise failure  # KeyboardInterrupt and the like
        if code >= 0:
            return code
        error = self._error[0] if told is None else told[0]
        frame = error.frame if error.frame >= 0 else None
        message = _text(error.message) or _text(lib.sparse_code_name(code))
        if failure is not None:
            message += f" ({_in_words(failure)})"
        raise errors.from_code(code, message, file=self.source.name, frame=frame) from failure

    def info(self) -> Info:
        """Facts of the stream, read anew."""
        raw = ffi.new("SparseInfo *")
        self._check(lib.sparse_info(self._reader, raw, self._error))
        values = {}
        for field, kind in Info.__dataclass_fields__.items():
            value = getattr(raw, field)
            if kind.type == "str":
                value = _text(value)
            elif kind.type == "bool":
                value = bool(value)
            values[field] = value
        return Info(**values)

    def set_conversion(
        self,
        crop: tuple[int, int, int, int] | None,
        resize: tuple[int, int] | None,
        resize_filter: str,
    ) -> None:
        """Crop (left, top, width, height), then resize (width, height), all but native planes."""
        raw = ffi.new("SparseConversion *")
        if crop is not None:
            raw.crop_left, raw.crop_top, raw.crop_width, raw.crop_height = crop
        if resize is not None:
            raw.resize_width, raw.resize_height = resize
        raw.resize_filter = FILTERS[resize_filter]
        self._check(lib.sparse_set_conversion(self._reader, raw, self._error))

    def frame_count(self) -> int:
        """Number of frames a linear decode puts out."""
        return self._check(lib.sparse_frame_count(self._reader, self._error))

    def frame_info(self, first: int, count: int) -> NDArray[Any]:
        """Records of `FRAME_INFO` for frames first..first+count-1; unknown seconds are NaN."""
        table = np.zeros(count, FRAME_INFO)
        if count:
            out = ffi.from_buffer("SparseFrameInfo[]", table, require_writable=True)
            self._check(lib.sparse_frame_info(self._reader, first, count, out, self._error))
        return _mark_unknown(table)

    def frame_info_at(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Records of `FRAME_INFO` for frames anywhere in the stream."""
        table = np.zeros(len(indices), FRAME_INFO)
        if len(indices):
            out = ffi.from_buffer("SparseFrameInfo[]", table, require_writable=True)
            for k, index in enumerate(indices.tolist()):
                self._check(lib.sparse_frame_info(self._reader, index, 1, out + k, self._error))
        return _mark_unknown(table)

    def build_index(self, progress: Callable[[float], object] | None = None) -> None:
        """Build the whole index; what progress(share) raises stops it and is raised again."""
        if progress is None:
            self._check(lib.sparse_build_index(self._reader, ffi.NULL, ffi.NULL, self._error))
            return
        state = _Progress(progress)
        user = ffi.new_handle(state)
        code = lib.sparse_build_index(self._reader, lib.sparse_py_progress, user, self._error)
        if state.failure is not None:
            raise state.failure
        self._check(code)

    def export_index(self, progress: Callable[[float], object] | None = None) -> bytes:
        """The whole index as the bytes of a saved one; progress as in `build_index`."""
        data, size = ffi.new("uint8_t **"), ffi.new("size_t *")
        state = _Progress(progress) if progress is not None else None
        call, user = ffi.NULL, ffi.NULL
        if state is not None:
            call, user = lib.sparse_py_progress, ffi.new_handle(state)
        code = lib.sparse_export_index(self._reader, call, user, data, size, self._error)
        if state is not None and state.failure is not None:
            raise state.failure
        self._check(code)
        try:
            exported: bytes = ffi.buffer(data[0], size[0])[:]
        finally:
            lib.sparse_free(data[0])
        return exported

    def plan(self, indices: NDArray[np.int64]) -> PlanFacts:
        """The pictures that these frames cost, with their direct references."""
        handle = ffi.new("SparsePlan **")
        pointer = ffi.from_buffer("int64_t[]", indices)
        self._check(
            lib.sparse_plan_create(handle, self._reader, pointer, len(indices), self._error)
        )
        try:
            raw = ffi.new("SparsePlanFacts *")
            lib.sparse_plan_facts(handle[0], raw)
            targets = _copy_int64(raw.targets, raw.target_count)
            reconstruct = _copy_int64(raw.reconstruct, raw.reconstruct_count)
            references = {
                picture: _references(handle[0], picture) for picture in reconstruct.tolist()
            }
            return PlanFacts(targets, reconstruct, raw.bytes, raw.linear_count, references)
        finally:
            lib.sparse_plan_free(handle)

    def layout(self, index: int, pixel_format: str) -> Layout:
        """Layout of one frame in a format of `FORMATS`."""
        raw = ffi.new("SparseLayout *")
        self._check(
            lib.sparse_frame_layout(self._reader, index, FORMATS[pixel_format], raw, self._error)
        )
        return _make_layout(raw)

    def get_frames(
        self,
        indices: NDArray[np.int64],
        pixel_format: str,
        batch: NDArray[Any],
        width: int,
        height: int,
    ) -> None:
        """Decode frames into batch[k].

        batch is uint8 [N, H, W, C] whose pixels lie together, with rows and frames at any
        distance, or whose planes do (for RGB), or [N, bytes] with one packed picture in each row.
        A frame of another size than width x height is an error.
        """
        count = len(indices)
        if count == 0:
            return
        targets = ffi.new("SparseTarget[]", count)
        _fill_targets(targets, 0, batch)
        code = lib.sparse_get_frames(
            self._reader,
            ffi.from_buffer("int64_t[]", indices),
            count,
            _format(pixel_format, batch),
            targets,
            width,
            height,
            self._error,
        )
        self._check(code)

    def stats(self) -> dict[str, Any]:
        """The counters by name."""
        raw = ffi.new("SparseStats *")
        lib.sparse_stats(self._reader, raw)
        return {
            name: getattr(raw, name) for name, _ in ffi.typeof(raw[0]).fields if name != "reserved"
        }

    def reset_stats(self) -> None:
        """Set the counters to zero."""
        lib.sparse_reset_stats(self._reader)

    def linear(self) -> LinearReader:
        """One plain decode of the stream from its start."""
        handle = ffi.new("SparseLinear **")
        self._check(lib.sparse_linear_open(handle, self._reader, self._error))
        return LinearReader(self, handle)


def is_planar(batch: NDArray[Any]) -> bool:
    """Whether the pixels of [N, H, W, 3] lie in three planes, each row's bytes together."""
    if batch.ndim != 4 or batch.shape[3] != 3 or batch.strides[3] == 1:
        return False
    _, height, width, _ = batch.shape
    row, plane = batch.strides[1], batch.strides[3]
    return batch.strides[2] == 1 and row >= width and plane >= (height - 1) * row + width


def _format(pixel_format: str, batch: NDArray[Any]) -> int:
    value: int = FORMATS[pixel_format]
    return lib.SPARSE_FORMAT_RGB24_PLANAR if is_planar(batch) else value


def _fill_targets(targets: Any, first: int, batch: NDArray[Any]) -> None:
    """Have targets[first:] tell where the frames of a batch go; see `Reader.get_frames`."""
    if not len(batch):
        return
    address = batch.__array_interface__["data"][0]
    size, row_step, plane_step = batch[0].nbytes, 0, 0
    if batch.ndim == 4:
        row_step = batch.strides[1]
        size = (batch.shape[1] - 1) * row_step + batch.shape[2] * batch.shape[3]
        if is_planar(batch):
            plane_step = batch.strides[3]
            size = 2 * plane_step + (batch.shape[1] - 1) * row_step + batch.shape[2]
    for k in range(len(batch)):
        target = targets[first + k]
        target.data = ffi.cast("uint8_t *", address + k * batch.strides[0])
        target.row_step = row_step
        target.size = size
        target.plane_step = plane_step


@dataclass
class Request:
    """What `get_batch` asks of one reader: the frames of batches[k] are indices[k]."""

    reader: Reader
    pixel_format: str
    width: int
    height: int
    indices: list[NDArray[np.int64]]
    batches: list[NDArray[Any]]


def get_batch(requests: list[Request], threads: int) -> tuple[int, errors.SparseError] | None:
    """Carry out requests to any readers, side by side, in at most so many threads.

    Returns None, or after a failure the number of the request and the error.
    """
    items = ffi.new("SparseBatchItem[]", len(requests))
    error = ffi.new("SparseError *")
    failed = ffi.new("size_t *")
    keep = []
    for item, request in zip(items, requests, strict=True):
        indices = np.concatenate(request.indices)
        targets = ffi.new("SparseTarget[]", len(indices))
        first = 0
        for batch in request.batches:
            _fill_targets(targets, first, batch)
            first += len(batch)
        item.reader = request.reader._reader
        item.indices = pointer = ffi.from_buffer("int64_t[]", indices)
        item.targets = targets
        item.count = len(indices)
        item.format = _format(request.pixel_format, request.batches[0])
        item.width, item.height = request.width, request.height
        keep.append((indices, pointer, targets))
    code = lib.sparse_get_batch(items, len(requests), threads, failed, error)
    for k, request in enumerate(requests):
        source = request.reader.source
        if isinstance(source, FileSource) and source.failure is not None:
            try:
                request.reader._check(min(code, -1), error)
            except errors.SparseError as failure:
                return k, failure
    if code >= 0:
        return None
    try:
        requests[failed[0]].reader._check(code, error)
    except errors.SparseError as failure:
        return int(failed[0]), failure
    return None


class LinearReader:
    """A plain linear decode by the same FFmpeg, with nothing of the sparse path used."""

    def __init__(self, reader: Reader, handle: Any) -> None:
        self._reader = reader
        self._handle: Any = ffi.gc(handle, lib.sparse_linear_close)

    def next(self, pixel_format: str) -> tuple[Layout, NDArray[np.uint8], bool] | None:
        """The next frame: its layout, its packed bytes, whether it is damaged; None at the end."""
        error = self._reader._error
        kind = FORMATS[pixel_format]
        raw = ffi.new("SparseLayout *")
        if not self._reader._check(lib.sparse_linear_peek(self._handle[0], kind, raw, error)):
            return None
        layout = _make_layout(raw)
        packed = np.empty(layout.size, np.uint8)
        target = ffi.new("SparseTarget *")
        target.data = ffi.from_buffer("uint8_t[]", packed, require_writable=True)
        target.size = packed.nbytes
        damaged = ffi.new("int *")
        code = lib.sparse_linear_next(self._handle[0], kind, target, ffi.NULL, damaged, error)
        if not self._reader._check(code):
            return None
        return layout, packed, bool(damaged[0])

    def skip(self) -> bool:
        """Decode the next frame and drop it; false at the end."""
        error, null = self._reader._error, ffi.NULL
        code = lib.sparse_linear_next(self._handle[0], 0, null, null, null, error)
        return bool(self._reader._check(code))

    def close(self) -> None:
        """Free the decoder; a second call does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            ffi.release(handle)

    def __enter__(self) -> LinearReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _mark_unknown(table: NDArray[Any]) -> NDArray[Any]:
    unknown = table["pts"] == _NO_PTS
    if unknown.any():
        table["pts_seconds"][unknown] = np.nan
    return table


def _copy_int64(pointer: Any, count: int) -> NDArray[np.int64]:
    if count == 0:
        return np.zeros(0, np.int64)
    values: NDArray[np.int64] = np.frombuffer(ffi.buffer(pointer, count * 8), np.int64)
    copied: NDArray[np.int64] = values.copy()
    return copied


def _references(plan: Any, picture: int) -> tuple[int, ...]:
    capacity = 64
    while True:
        out = ffi.new("int64_t[]", capacity)
        count = lib.sparse_plan_references(plan, picture, out, capacity)
        if count <= capacity:
            return tuple(out[k] for k in range(max(count, 0)))
        capacity = count
