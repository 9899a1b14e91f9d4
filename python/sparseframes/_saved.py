"""Where saved indexes are kept: beside their files, in a folder, or all in one file.

A place gives the index of a source and takes a new one. In a folder and in the one file, which is
an SQLite data base, an index goes by a key that is made of the contents of the video file, so that
a copy of it has the same, whatever its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from sparseframes._source import FileSource, MemorySource, PathSource, Source

SUFFIX = ".sparse"
"""Of a saved index beside its file."""

SET_SUFFIX = ".sparseset"
"""Of the one file that holds the indexes of many."""

# the first bytes of a saved index
_MAGIC = b"\x89SPX\r\n\x1a\n"
# bytes at each end of a file that its key is made of
_END = 4096
# how long one waits for another that writes to the same set
_BUSY_SECONDS = 60.0


class Place(Protocol):
    """Where the indexes of sources are kept."""

    def find(self, source: Source) -> str | bytes | None:
        """The name of the file with the source's index, or its bytes; None when there is none."""

    def put(self, source: Source, index: bytes) -> str:
        """Keep an index; the name of where it went. OSError when that can't be."""


def key_of(source: Source) -> str:
    """A name for the contents of a source: 32 hexadecimal digits."""
    if isinstance(source, PathSource):
        with Path(os.fsdecode(source.path)).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(_END)
            file.seek(max(size - _END, 0))
            tail = file.read(_END)
    elif isinstance(source, MemorySource):
        size = len(source.view)
        head, tail = bytes(source.view[:_END]), bytes(source.view[max(size - _END, 0) :])
    else:
        size = source.size()
        head, tail = _read_at(source, 0), _read_at(source, max(size - _END, 0))
    digest = hashlib.sha256(b"%d:%d:" % (size, len(head)) + head + tail)
    return digest.hexdigest()[:32]


def _read_at(source: FileSource, offset: int) -> bytes:
    buffer = bytearray(min(_END, max(source.size() - offset, 0)))
    filled = 0
    while filled < len(buffer):
        count = source.read_into(memoryview(buffer)[filled:], offset + filled)
        if not count:
            break
        filled += count
    return bytes(buffer[:filled])


class Beside:
    """FILE.sparse for FILE; nothing for sources without a path."""

    def find(self, source: Source) -> str | bytes | None:
        path = self._path(source)
        return path if path is not None and Path(path).exists() else None

    def put(self, source: Source, index: bytes) -> str:
        path = self._path(source)
        if path is None:
            raise OSError(f"{source.name} has no file to keep an index beside")
        return write(path, index)

    def _path(self, source: Source) -> str | None:
        return os.fsdecode(source.path) + SUFFIX if isinstance(source, PathSource) else None


class One:
    """One file that holds the index of one source."""

    def __init__(self, path: str) -> None:
        self.path = path

    def find(self, source: Source) -> str | bytes | None:
        return self.path if Path(self.path).exists() else None

    def put(self, source: Source, index: bytes) -> str:
        return write(self.path, index)


class Given:
    """The bytes of one index."""

    def __init__(self, index: bytes) -> None:
        self.index = index

    def find(self, source: Source) -> str | bytes | None:
        return self.index

    def put(self, source: Source, index: bytes) -> str:
        self.index = index
        return "<memory>"


class Folder:
    """A folder with one file for each source: KEY.sparse."""

    def __init__(self, path: str) -> None:
        self.path = path

    def find(self, source: Source) -> str | bytes | None:
        path = self._path(source)
        return path if Path(path).exists() else None

    def put(self, source: Source, index: bytes) -> str:
        return write(self._path(source), index)

    def _path(self, source: Source) -> str:
        return str(Path(self.path, key_of(source) + SUFFIX))


class Set:
    """One SQLite data base: the table `indexes` with a row for each source."""

    def __init__(self, path: str) -> None:
        self.path = path

    @contextlib.contextmanager
    def _open(self, *, writing: bool) -> Iterator[sqlite3.Connection]:
        # opened for each use: a connection can't go through a fork
        mode = "rwc" if writing else "ro"
        uri = f"file:{quote(str(Path(self.path).absolute()))}?mode={mode}"
        try:
            base = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)
            try:
                with base:
                    yield base
            finally:
                base.close()
        except sqlite3.Error as error:
            raise OSError(f"{self.path}: {error}") from error

    def find(self, source: Source) -> str | bytes | None:
        if not Path(self.path).exists():
            return None
        key = key_of(source)
        with self._open(writing=False) as base:
            row = base.execute("SELECT data FROM indexes WHERE key = ?", (key,)).fetchone()
        return bytes(row[0]) if row else None

    def put(self, source: Source, index: bytes) -> str:
        key = key_of(source)
        with self._open(writing=True) as base:
            base.execute(
                "CREATE TABLE IF NOT EXISTS indexes"
                " (key TEXT PRIMARY KEY, name TEXT NOT NULL, data BLOB NOT NULL)"
            )
            base.execute(
                "INSERT OR REPLACE INTO indexes (key, name, data) VALUES (?, ?, ?)",
                (key, source.name.encode("utf-8", "replace").decode(), index),
            )
        return self.path


def _may_be_replaced(path: str) -> bool:
    """Whether there is nothing under this name, or nothing but an index, as far as one can see.

    A name of another kind may be a mistake, and what is there somebody's video.
    """
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        return True
    if not stat.S_ISREG(status.st_mode):
        return False
    if path.endswith(SUFFIX) or not status.st_size:
        return True
    with Path(path).open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def write(path: str, index: bytes) -> str:
    """Write a file in one step: under another name in its folder, synced, then renamed.

    Raises:
        FileExistsError: the name is that of another kind of file, which stays as it is.
    """
    if not _may_be_replaced(path):
        raise FileExistsError(f"{path}: there is a file of this name, which is no saved index")
    temporary = Path(f"{path}.tmp-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.write(index)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return path


def make_place(saved_index: Any) -> Place | None:
    """What the argument of `VideoDecoder` means."""
    if saved_index is None:
        return None
    if isinstance(saved_index, (bytes, bytearray, memoryview)):
        return Given(bytes(saved_index))
    if isinstance(saved_index, str) and saved_index == "auto":
        return Beside()
    if isinstance(saved_index, (str, os.PathLike)):
        path = os.fsdecode(os.fspath(saved_index))
        if Path(path).is_dir():
            return Folder(path)
        return Set(path) if path.endswith(SET_SUFFIX) else One(path)
    raise TypeError(
        "saved_index must be None, 'auto', a path or the bytes of an index, not "
        f"{type(saved_index).__name__}"
    )
