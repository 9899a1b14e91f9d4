"""The decoders and pictures that all `VideoDecoder` objects of this process share."""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass

from sparseframes._binding import Pool
from sparseframes.errors import ArgumentError

DEFAULT_BUDGET = 256 << 20
"""Bytes of memory for kept pictures in each process, unless `set_cache_budget` says otherwise."""

_lock = threading.Lock()
_pool: Pool | None = None
_budget = DEFAULT_BUDGET


@dataclass(frozen=True)
class CacheInfo:
    """What is kept in this process, and how often it helped since the process began to keep it.

    Attributes:
        budget: bytes that kept pictures and the memory for the next ones may take.
        bytes, pictures: kept at the moment, with their motion data.
        hits, misses: pictures that requests needed and found, or had to decode.
        kept, dropped: pictures that went in, and out again.
        unused_bytes: memory that waits for the next pictures.
        idle_decoders: contexts that wait for a file with the same parameters.
        decoders_opened, decoders_reused: how often one was set up, and how often one was there.
    """

    budget: int
    bytes: int
    pictures: int
    hits: int
    misses: int
    kept: int
    dropped: int
    unused_bytes: int
    idle_decoders: int
    decoders_opened: int
    decoders_reused: int


def shared_pool() -> Pool:
    """The pool of this process, made at its first use."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = Pool(_budget)
        return _pool


def set_cache_budget(budget: int) -> None:
    """Set how much memory kept pictures may take in this process.

    Reconstructed reference pictures are kept for later requests to the same file, by any decoder,
    until the budget is used up; those that were needed least and longest ago go first. Frames are
    the same with and without. Every process has a budget of its own, 256 MiB at first; a child
    begins with what its parent had set, and with nothing kept.

    Args:
        budget: bytes, of which seven tenths are for the pictures, the rest for memory and
            decoders that wait for the next request. 0 keeps nothing. What is too much is freed at
            once.
    """
    global _budget
    if isinstance(budget, bool) or not isinstance(budget, int):
        raise TypeError(f"budget must be an integer, not {type(budget).__name__}")
    if not 0 <= budget < 1 << 62:
        raise ArgumentError(f"budget must be a number of bytes from 0, not {budget}")
    with _lock:
        _budget = budget
        if _pool is not None:
            _pool.set_budget(budget)


def clear_cache() -> None:
    """Free the kept pictures, idle decoders and unused memory of this process."""
    with _lock:
        if _pool is not None:
            _pool.clear()


def cache_info() -> CacheInfo:
    """What is kept, and counters."""
    return CacheInfo(**shared_pool().facts())


def hash_key(key: str | bytes | None) -> bytes:
    """A caller's key as the bytes that the library takes."""
    if key is None:
        return b""
    if isinstance(key, str):
        key = b"s" + key.encode("utf-8", "surrogatepass")
    elif isinstance(key, bytes):
        key = b"b" + key
    else:
        raise TypeError(f"cache_key must be a str or bytes, not {type(key).__name__}")
    return hashlib.sha256(key).digest()


def _forget_in_child() -> None:
    # locks of the parent's threads may be held for ever in the copy of its pool
    global _lock, _pool
    _lock = threading.Lock()
    if _pool is not None:
        _pool.abandon()
        _pool = None


os.register_at_fork(after_in_child=_forget_in_child)
