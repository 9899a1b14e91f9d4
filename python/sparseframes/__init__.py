"""Exact frames from video files, decoding no more than they need."""

from __future__ import annotations

from importlib.metadata import version

__version__ = version("sparseframes")
