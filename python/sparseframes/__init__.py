"""Exact frames from video files, decoding no more than they need."""

from __future__ import annotations

from importlib.metadata import version

from sparseframes._batch import decode_batch
from sparseframes._binding import ffmpeg_version, library_version
from sparseframes._cache import CacheInfo, cache_info, clear_cache, set_cache_budget
from sparseframes._decoder import VideoDecoder
from sparseframes._types import Frame, FrameBatch, Plan, Planes, Stats, VideoStreamMetadata
from sparseframes.encode import Encoder, check_ddra, transcode
from sparseframes.errors import (
    ArgumentError,
    ClosedError,
    DecodeError,
    IndexError,  # noqa: A004 - a subclass of the built-in one
    SavedIndexError,
    SavedIndexWarning,
    SourceError,
    SparseError,
    UnsupportedError,
)

__version__ = version("sparseframes")

__all__ = [
    "ArgumentError",
    "CacheInfo",
    "ClosedError",
    "DecodeError",
    "Encoder",
    "Frame",
    "FrameBatch",
    "IndexError",
    "Plan",
    "Planes",
    "SavedIndexError",
    "SavedIndexWarning",
    "SourceError",
    "SparseError",
    "Stats",
    "UnsupportedError",
    "VideoDecoder",
    "VideoStreamMetadata",
    "cache_info",
    "check_ddra",
    "clear_cache",
    "decode_batch",
    "ffmpeg_version",
    "library_version",
    "set_cache_budget",
    "transcode",
]
