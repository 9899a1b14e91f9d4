"""Open decoders, the least recently used of which are given up: LeRobot's rules."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

from sparseframes._decoder import PixelFormat, VideoDecoder
from sparseframes.errors import ArgumentError, SourceError
from sparseframes.lerobot._times import TimedVideo

VARIABLE = "LEROBOT_VIDEO_DECODER_CACHE_SIZE"
DEFAULT_SIZE = 100


class _FromVariable:
    """The size that the environment variable gives."""


FROM_VARIABLE: Final = _FromVariable()


def size_from_variable() -> int | None:
    """How many decoders to keep: LEROBOT_VIDEO_DECODER_CACHE_SIZE, by default 100.

    It is a positive number; "none", "unbounded", "-1" and nothing at all stand for any number.
    """
    text = os.environ.get(VARIABLE)
    if text is None:
        return DEFAULT_SIZE
    text = text.strip().lower()
    if text in ("", "none", "unbounded", "-1"):
        return None
    try:
        size = int(text)
    except ValueError:
        size = 0
    if size <= 0:
        raise ArgumentError(f"{VARIABLE} must be a positive integer, 'none' or '-1', not {text!r}")
    return size


class VideoDecoderCache:
    """Decoders by path, of which the least recently used is given up for a new one.

    A decoder that is in use elsewhere stays open until it is no longer. Paths may be URLs that
    fsspec knows.

    Args:
        max_size: how many are kept; None for all. Without it, LEROBOT_VIDEO_DECODER_CACHE_SIZE
            tells, read at the first use, or else it is 100.

    Thread-safety: safe. After a fork the child begins with an empty cache.
    """

    def __init__(self, max_size: int | _FromVariable | None = FROM_VARIABLE) -> None:
        if not isinstance(max_size, _FromVariable | None) and max_size <= 0:
            raise ArgumentError(f"max_size must be positive or None, not {max_size}")
        self._max_size = max_size
        self._lock = threading.Lock()
        self._videos: OrderedDict[tuple[str, str], TimedVideo] = OrderedDict()
        _caches.add(self)

    @property
    def max_size(self) -> int | None:
        """How many decoders are kept, None for all."""
        if isinstance(self._max_size, _FromVariable):
            self._max_size = size_from_variable()
        return self._max_size

    def __contains__(self, video_path: object) -> bool:
        with self._lock:
            return any(path == str(video_path) for path, _ in self._videos)

    def get_decoder(self, video_path: str | Path) -> VideoDecoder:
        """The decoder of a path's RGB frames, opened if there is none."""
        return self.get(video_path).decoder

    def get(self, video_path: str | Path, pixel_format: PixelFormat = "rgb24") -> TimedVideo:
        """The same with the times of the frames, for a pixel format of `VideoDecoder`."""
        key = (str(video_path), pixel_format)
        most = self.max_size
        with self._lock:
            video = self._videos.get(key)
            if video is not None:
                self._videos.move_to_end(key)
                return video
            video = self._videos[key] = TimedVideo(open_video(key[0], pixel_format))
            while most is not None and len(self._videos) > most:
                # freed when its last user is done with it
                self._videos.popitem(last=False)
            return video

    def clear(self) -> None:
        """Give all decoders up."""
        with self._lock:
            self._videos.clear()

    def size(self) -> int:
        """Number of decoders that are kept."""
        with self._lock:
            return len(self._videos)

    def __reduce__(self) -> tuple[Any, ...]:
        size = self._max_size
        return VideoDecoderCache, (() if isinstance(size, _FromVariable) else (size,))

    def _after_fork(self) -> None:
        # whoever held the lock is in the parent
        self._lock = threading.Lock()
        self._videos = OrderedDict()


def open_video(path: str, pixel_format: PixelFormat = "rgb24") -> VideoDecoder:
    """A decoder that reads no more of a file than a request needs; URLs go through fsspec."""
    if "://" not in path:
        return VideoDecoder(path, pixel_format=pixel_format, index="lazy")
    try:
        import fsspec
    except ImportError:
        raise SourceError(f"{path}: URLs need fsspec: pip install fsspec", file=path) from None
    file = fsspec.open(path, "rb").open()
    try:
        decoder = VideoDecoder(file, pixel_format=pixel_format, index="lazy")
    except BaseException:
        file.close()
        raise
    weakref.finalize(decoder, file.close)
    return decoder


_caches: weakref.WeakSet[VideoDecoderCache] = weakref.WeakSet()


def _forget_in_child() -> None:
    for cache in list(_caches):
        cache._after_fork()


# after the decoders' own, which was registered when theirs was imported
os.register_at_fork(after_in_child=_forget_in_child)

default_cache = VideoDecoderCache()
