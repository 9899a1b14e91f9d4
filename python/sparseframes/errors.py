"""What can go wrong, as one tree of exceptions under `SparseError`.

Each also derives from the built-in exception that Python code would expect in its place, so that
``except IndexError`` or ``except OSError`` catches it too.
"""

from __future__ import annotations

import builtins
from typing import Any

__all__ = [
    "ArgumentError",
    "ClosedError",
    "DecodeError",
    "IndexError",
    "InterruptedError",
    "OutOfMemoryError",
    "SavedIndexError",
    "SavedIndexWarning",
    "SourceError",
    "SparseError",
    "UnsupportedError",
]


class SparseError(Exception):
    """Base of all errors of this package.

    Attributes:
        file: name of the file or source concerned, or None.
        frame: display index of the frame concerned, or None.
        code: the C library's result code, 0 where the error was found in Python.
        item: number of the item of `decode_batch` concerned, or None.
    """

    default_code = 0
    item: int | None = None

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        frame: int | None = None,
        code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.file = file
        self.frame = frame
        self.code = self.default_code if code is None else code

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), str(self), self.file, self.frame, self.code)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SourceError(SparseError, OSError):
    """The source can't be opened or read, or holds no video."""

    default_code = -3


class UnsupportedError(SparseError):
    """A codec or a construct that can't be had exactly."""

    default_code = -4


class DecodeError(SparseError):
    """Damaged data in what the request depends on."""

    default_code = -5


class IndexError(SparseError, builtins.IndexError):  # noqa: A001 - it is one
    """A frame index or a time outside the stream."""

    default_code = -6


class ArgumentError(SparseError, ValueError):
    """A bad argument: the caller's mistake."""

    default_code = -2


class ClosedError(SparseError, ValueError):
    """The decoder has been closed, or its source is gone."""

    default_code = -8


class InterruptedError(SparseError):  # noqa: A001 - the C library's word for it
    """A progress callback asked to stop."""

    default_code = -7


class SavedIndexError(SparseError):
    """A saved index is damaged, of another version, or was made for another file."""

    default_code = -9


class SavedIndexWarning(UserWarning):
    """A saved index could not be used, or not be written; the decoder does without."""


class OutOfMemoryError(SparseError, MemoryError):
    """An allocation failed."""

    default_code = -1


_BY_CODE: dict[int, type[SparseError]] = {
    kind.default_code: kind
    for kind in (
        OutOfMemoryError,
        ArgumentError,
        SourceError,
        UnsupportedError,
        DecodeError,
        IndexError,
        InterruptedError,
        ClosedError,
        SavedIndexError,
    )
}


def from_code(
    code: int, message: str, *, file: str | None = None, frame: int | None = None
) -> SparseError:
    """The exception that stands for a negative result code of the C library."""
    kind = _BY_CODE.get(code, SparseError)
    return kind(message, file=file, frame=frame, code=code)


def _rebuild(
    kind: type[SparseError], message: str, file: str | None, frame: int | None, code: int
) -> SparseError:
    return kind(message, file=file, frame=frame, code=code)
