#!/usr/bin/env python3
"""Check that the patch series applies to the pristine release without fuzz or offsets."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from build_ffmpeg import SERIES, SOURCE, BuildError, apply_patches, extract, series
from fetch_source import FetchError, fetch, note


def main() -> int:
    """Apply the series to a fresh copy of the source."""
    parser = argparse.ArgumentParser(description="Apply the FFmpeg series to the pristine source.")
    parser.add_argument("--source", type=Path, help="FFmpeg's archive, or the folder that has it")
    arguments = parser.parse_args()
    try:
        patches = series()
        listed = {patch.name for patch in patches}
        stray = sorted(path.name for path in SERIES.glob("*.patch") if path.name not in listed)
        if stray:
            raise BuildError(f"{SERIES / 'series'} leaves out {', '.join(stray)}")
        if len(listed) != len(patches):
            raise BuildError(f"{SERIES / 'series'} names a patch twice")
        with tempfile.TemporaryDirectory(prefix="check-patches-") as temporary:
            tree = extract(fetch(SOURCE, arguments.source), Path(temporary))
            apply_patches(tree, patches, allow_offset=False)
    except (BuildError, FetchError) as error:
        note(f"check_patches: {error}")
        return 1
    print(f"{len(patches)} patches apply to FFmpeg {SOURCE.version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
