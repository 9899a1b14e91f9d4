"""With the feature off, the patched decoders give what an unpatched FFmpeg gives.

    python tests/unharmed.py PROGRAM FILE_OR_FOLDER... [--threads 1,4]

PROGRAM is an ffmpeg program with the patch series in it, as `make encoder` builds it. Each file is
decoded by it with each number of threads, and by PyAV, whose FFmpeg is unpatched; the hashes of all
frames have to be equal. Files on which the two disagree, and those that either can't decode without
errors, are named; the exit status is 1 when a file without errors differs.

Versions of FFmpeg differ in concealment, so that files with errors are compared between the numbers
of threads alone, and told of, not failed. So are files of which PyAV's FFmpeg itself gives other
frames from run to run, or with another number of threads: some have blocks that nobody decodes, and
show what the memory held before.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import av
import numpy as np

from sparseframes.validation.reference import Reference, UnreadableError, pyav_frames, pyav_planes

SKIP = {".tsv", ".md", ".txt", ".py"}
CODECS = {"h264", "hevc"}


def packed_hash(planes: list[Any]) -> str:
    """MD5 of the planes one after another, as FFmpeg's framehash takes it."""
    state = hashlib.md5(usedforsecurity=False)
    for plane in planes:
        state.update(np.ascontiguousarray(plane).data)
    return state.hexdigest()


def by_pyav(path: str) -> tuple[Reference, list[str]]:
    """Frame hashes of an unpatched FFmpeg on one thread."""
    reference = Reference()
    hashes = [packed_hash(pyav_planes(frame)) for frame in pyav_frames(path, reference)]
    return reference, hashes


def unsteady(path: str, expected: list[str], threads: list[int]) -> set[int]:
    """Frames of which an unpatched FFmpeg gives one thing now and another then."""
    found = set()
    for count in (*threads, *threads):
        with av.open(path) as container:
            container.streams.video[0].thread_count = count
            container.streams.video[0].thread_type = "AUTO"
            hashes = [packed_hash(pyav_planes(frame)) for frame in container.decode(video=0)]
        found |= {k for k, (a, b) in enumerate(zip(hashes, expected, strict=False)) if a != b}
    return found


def by_program(program: str, path: str, threads: int) -> tuple[list[str], str]:
    """Frame hashes of the program, and what it complains of."""
    words = [program, "-nostdin", "-v", "error", "-threads", str(threads), "-noautorotate"]
    words += ["-i", path, "-map", "0:v:0", "-fps_mode", "passthrough", "-noautoscale"]
    done = subprocess.run(
        [*words, "-f", "framehash", "-hash", "md5", "-"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    rows = [line for line in done.stdout.splitlines() if line and not line.startswith("#")]
    return [row.rsplit(",", 1)[1].strip() for row in rows], done.stderr


def compare(program: str, path: str, threads: list[int]) -> tuple[str, str]:
    """("equal" | "differs" | "errors" | "passed over", in words)."""
    try:
        reference, expected = by_pyav(path)
    except UnreadableError as error:
        return "passed over", str(error)
    if reference.codec not in CODECS:
        return "passed over", f"codec {reference.codec}"
    runs = {count: by_program(program, path, count) for count in threads}
    differing = [count for count, (hashes, _) in runs.items() if hashes != expected]
    if not differing:
        return "equal", f"{len(expected)} frames"
    complaint = next((text for _, text in runs.values() if text), "").split("\n")[0]
    hashes = runs[differing[0]][0]
    words = f"{len(hashes)} frames for {len(expected)} with {differing} threads"
    at = [k for k, (a, b) in enumerate(zip(hashes, expected, strict=False)) if a != b]
    if complaint or reference.damaged_from is not None:
        return "errors", f"{words}, first differing {at[:5]}: {complaint}"
    if len(hashes) == len(expected) and set(at) <= unsteady(path, expected, threads):
        return "unsteady", f"{words}, differing {at[:5]}, without the patches, too"
    return "differs", f"{words}, first differing {at[:5]}: {complaint}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--threads", default="1,4")
    arguments = parser.parse_args()
    threads = [int(text) for text in arguments.threads.split(",")]
    files = [
        file
        for path in arguments.paths
        for file in (sorted(path.rglob("*")) if path.is_dir() else [path])
        if file.is_file() and file.suffix not in SKIP
    ]
    counts: dict[str, int] = {}
    for file in files:
        status, words = compare(arguments.program, str(file), threads)
        counts[status] = counts.get(status, 0) + 1
        if status in ("differs", "errors", "unsteady"):
            print(f"{status}: {file}: {words}", flush=True)
    print(f"{len(files)} files: {counts}")
    return int("differs" in counts)


if __name__ == "__main__":
    sys.exit(main())
