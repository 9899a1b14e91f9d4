"""The kinds of source a decoder reads from.

A `Source` says how to open itself (path, memory or callbacks), what to call itself in messages,
and whether another process can open it again.
"""

from __future__ import annotations

import io
import os
from typing import Any, Protocol, runtime_checkable

import numpy as np

from sparseframes.errors import ArgumentError


@runtime_checkable
class FileLike(Protocol):
    """What a file-like source must have: binary reading, and seeking from the start."""

    def read(self, size: int, /) -> bytes:
        """Up to size bytes; empty at the end."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move to offset."""


class PathSource:
    """A file on disk."""

    def __init__(self, path: str | bytes | os.PathLike[Any]) -> None:
        self.path = os.fspath(path)
        encoded = os.fsencode(self.path)
        if b"\0" in encoded:
            raise ArgumentError("a path can't hold a NUL character")
        self.encoded = encoded
        self.name = os.fsdecode(self.path)


class MemorySource:
    """The bytes of a file, kept by reference: not copied where they are contiguous."""

    name = "<memory>"

    def __init__(self, data: Any) -> None:
        view = memoryview(data)
        # a slice with a step has gaps: only then there is a copy
        self.view = view.cast("B") if view.c_contiguous and view.nbytes else memoryview(bytes(view))


class FileSource:
    """A file-like object, read through `read(size)` and `seek(offset)`.

    Its position belongs to the decoder while that is open, and it is not closed by it. The first
    exception that the object raises is kept in `failure` for whoever made the call.
    """

    def __init__(self, file: FileLike) -> None:
        self.file = file
        name = getattr(file, "name", None) or getattr(file, "path", None)
        self.name = name if isinstance(name, str) else "<stream>"
        self.failure: BaseException | None = None
        self._position: int | None = None
        self._end: int | None = None

    def size(self) -> int:
        """Length in bytes; where the object can't tell it is read once to its end."""
        if self._end is None:
            self._end = self._find_size()
        return self._end

    def _find_size(self) -> int:
        for ask in (self._size_by_seeking, self._size_by_attribute):
            try:
                size = ask()
            except Exception:
                continue
            # 0 may also come from a seek() that knows nothing but the start
            if isinstance(size, int) and size > 0:
                return size
        return self._size_by_reading()

    def _size_by_seeking(self) -> int | None:
        self._position = None
        # some return nothing
        end: object = self.file.seek(0, os.SEEK_END)
        if isinstance(end, int):
            return end
        tell = getattr(self.file, "tell", None)
        return tell() if tell is not None else None

    def _size_by_attribute(self) -> int | None:
        size = getattr(self.file, "size", None)
        return size() if callable(size) else size

    def _size_by_reading(self) -> int:
        self._position = None
        self.file.seek(0)
        size = 0
        while data := self.file.read(1 << 20):
            size += len(data)
        return size

    def read_into(self, target: Any, offset: int) -> int:
        """Read into a writable buffer from offset; returns the number of bytes, 0 at the end."""
        # nobody has to seek to the end or beyond it
        size = min(len(target), self.size() - offset)
        if size <= 0:
            return 0
        if self._position != offset:
            self._position = None
            self.file.seek(offset)
        data = self.file.read(size)
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"read() returned {type(data).__name__}; open the file in binary mode")
        count = len(data)
        if count > size:
            raise ValueError(f"read({size}) returned {count} bytes")
        target[:count] = data
        self._position = offset + count
        return count


Source = PathSource | MemorySource | FileSource


def make_source(source: object) -> Source:
    """Tell the kind of a source; TypeError when it is none."""
    if isinstance(source, (str, os.PathLike)):
        return PathSource(source)
    if isinstance(source, np.ndarray):
        if source.dtype != np.uint8:
            raise ArgumentError(f"an array as source must be of uint8, not {source.dtype}")
        return MemorySource(np.ascontiguousarray(source).reshape(-1))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return MemorySource(source)
    if isinstance(source, io.TextIOBase):
        raise TypeError("the file is open in text mode; open it in binary mode")
    if callable(getattr(source, "read", None)) and callable(getattr(source, "seek", None)):
        return FileSource(source)  # type: ignore[arg-type]
    try:
        return MemorySource(source)
    except TypeError:
        pass
    raise TypeError(
        "source must be a path, bytes, a uint8 array or a file-like object with read() and "
        f"seek(), not {type(source).__name__}"
    )
