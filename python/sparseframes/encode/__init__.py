"""Writing files of which any frame costs at most three pictures.

In such a file intra pictures, the anchors, come every period frames and at the very end, and all
pictures between are B pictures that depend on nothing but the two anchors around them
(dependency-decoupled random access, DDRA). The encoding is done by a program of its own, an ffmpeg
with patched encoders that ``make encoder`` builds.
"""

from __future__ import annotations

from sparseframes.encode._check import DDRAReport, Violation, check_ddra
from sparseframes.encode._program import EncodeError, ProgramNotFoundError, find_program
from sparseframes.encode._settings import CODECS, PROFILES, Settings
from sparseframes.encode._transcode import TranscodeResult, transcode
from sparseframes.encode._writer import Encoder

__all__ = [
    "CODECS",
    "PROFILES",
    "DDRAReport",
    "EncodeError",
    "Encoder",
    "ProgramNotFoundError",
    "Settings",
    "TranscodeResult",
    "Violation",
    "check_ddra",
    "find_program",
    "transcode",
]
