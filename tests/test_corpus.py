"""Public conformance streams and files from the field, if they lie beside the repository.

A sample by default; all of it, with 200 requests a file, when SPARSEFRAMES_CORPUS=all.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparseframes.validation import validate

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus"
FOLDERS = ("h264-conformance", "hevc-conformance", "av1", "realworld")
SUFFIXES = {".tsv", ".md", ".txt", ".py"}
# bytes of a file in the sample
SMALL = 150_000
EVERY = 3


def files() -> list[Path]:
    found = [
        path
        for folder in FOLDERS
        for path in sorted((CORPUS / folder).glob("*"))
        if path.is_file() and path.suffix not in SUFFIXES
    ]
    if os.environ.get("SPARSEFRAMES_CORPUS") == "all":
        return found
    return [path for path in found if path.stat().st_size < SMALL][::EVERY]


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"there is no {CORPUS}")
@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_file(path: Path) -> None:
    whole = os.environ.get("SPARSEFRAMES_CORPUS") == "all"
    result = validate(str(path), requests=200 if whole else 9, frames_per_request=6)
    assert result.status in ("exact", "unreadable"), (result.reason, result.mismatches)
