"""Random requests held against linear decodes.

Native planes are held against a linear decode by PyAV, whose FFmpeg is unpatched, and RGB against
this library's own linear decode. The pictures reconstructed are counted and held against the plan.
Needs PyAV (the ``av`` package).

Where the linear decode meets damage, frames before it have to be exact; from there on each frame
is exact or raises `DecodeError`.

Modules, each using those before it: ``requests`` (what is asked), ``options``, ``results``,
``reference`` (linear decodes), ``check`` (one file), ``runner`` (many files, in processes),
``report`` (text, JSON, JUnit XML).
"""

from __future__ import annotations

from collections.abc import Callable

from sparseframes.validation.check import check_file, first_difference
from sparseframes.validation.options import PIXELS, PRESETS, Options, Preset
from sparseframes.validation.requests import PATTERNS, Request, Structure, make_requests
from sparseframes.validation.results import FileResult, Mismatch, exit_status, summary

__all__ = [
    "PATTERNS",
    "PIXELS",
    "PRESETS",
    "FileResult",
    "Mismatch",
    "Options",
    "Preset",
    "Request",
    "Structure",
    "check_file",
    "exit_status",
    "first_difference",
    "make_requests",
    "summary",
    "validate",
]


def validate(
    path: str,
    *,
    requests: int = 200,
    seed: int = 0,
    frames_per_request: int = 8,
    thread_type: str = "NONE",
    threads: int = 1,
    progress: Callable[[float], object] | None = None,
) -> FileResult:
    """Check one file with all patterns, in native planes and in RGB; see `check_file`."""
    options = Options(
        requests=requests, seed=seed, frames_per_request=frames_per_request, threads=threads
    )
    return check_file(path, options, thread_type=thread_type, progress=progress)
