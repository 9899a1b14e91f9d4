#!/usr/bin/env python3
"""Check that the patch series apply to the pristine releases without fuzz or offsets."""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from build_ffmpeg import SERIES, BuildError, apply_patches, extract, series
from fetch_source import SOURCES, FetchError, fetch, note


@dataclass(frozen=True)
class Stack:
    """Series that are applied one after the other to one release."""

    source: str
    folders: tuple[str, ...]


STACKS = (
    Stack("ffmpeg", ("ffmpeg", "ffmpeg-encoder")),
    Stack("x264", ("x264",)),
    Stack("x265", ("x265",)),
)


def patches_of(folder: Path) -> list[Path]:
    """The patches of one series, none of them left out or named twice."""
    patches = series(folder)
    listed = {patch.name for patch in patches}
    stray = sorted(path.name for path in folder.glob("*.patch") if path.name not in listed)
    if stray:
        raise BuildError(f"{folder / 'series'} leaves out {', '.join(stray)}")
    if len(listed) != len(patches):
        raise BuildError(f"{folder / 'series'} names a patch twice")
    return patches


def check_stack(stack: Stack, named: Path | None) -> int:
    """Apply the series to a fresh copy of the source; the number of patches."""
    source = SOURCES[stack.source]
    count = 0
    with tempfile.TemporaryDirectory(prefix="check-patches-") as temporary:
        tree = extract(fetch(source, named), Path(temporary))
        for number, folder in enumerate(stack.folders):
            patches = patches_of(SERIES.parent / folder)
            # a later series may be moved by lines that an earlier one adds
            apply_patches(tree, patches, allow_offset=number > 0)
            count += len(patches)
    print(f"{count} patches apply to {source.name} {source.version}")
    return count


def main() -> int:
    """Apply every series to a fresh copy of its source."""
    parser = argparse.ArgumentParser(description="Apply the series to the pristine sources.")
    parser.add_argument("--source", type=Path, help="FFmpeg's archive, or the folder that has it")
    arguments = parser.parse_args()
    try:
        for stack in STACKS:
            check_stack(stack, arguments.source if stack.source == "ffmpeg" else None)
    except (BuildError, FetchError) as error:
        note(f"check_patches: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
