"""Inputs that reproduce public bug reports, if they and their tools are there.

They are built by a script beside the repository, which needs the ffmpeg program with its encoders.
The most important of them are made again in `media` and are always tested.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sparseframes.validation import validate

SCRIPT = Path(__file__).resolve().parents[2] / "shared" / "cases" / "make_inputs.sh"
ENCODERS = ("libx264", "libx265", "libaom-av1", "libsvtav1", "ffv1")


def missing() -> str:
    """Why the inputs can't be built; empty if they can."""
    if not SCRIPT.is_file():
        return f"there is no {SCRIPT}"
    ffmpeg = shutil.which("ffmpeg")
    if ffmpeg is None:
        return "there is no ffmpeg program"
    listed = subprocess.run(
        [ffmpeg, "-hide_banner", "-encoders"], capture_output=True, text=True, check=False
    ).stdout.split()
    lacking = [name for name in ENCODERS if name not in listed]
    return f"ffmpeg lacks {', '.join(lacking)}" if lacking else ""


REASON = missing()


@pytest.mark.slow
@pytest.mark.skipif(bool(REASON), reason=REASON)
def test_cases(tmp_path: Path) -> None:
    script = tmp_path / SCRIPT.name
    shutil.copy(SCRIPT, script)
    subprocess.run(["bash", script], check=True, capture_output=True, stdin=subprocess.DEVNULL)
    wrong = {}
    for path in sorted((tmp_path / "in").iterdir()):
        result = validate(str(path), requests=40)
        if result.status not in ("exact", "unreadable"):
            wrong[path.name] = (result.status, result.reason)
    assert not wrong
