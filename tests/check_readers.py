#!/usr/bin/env python3
"""Check that other libraries read the right frame at every index of DDRA files.

The files are of both codecs, with and without later IDR pictures, in mp4 and mkv, and each picture
holds its own number. Ordinary files in the same containers tell how many frames a reader finds
in such a container at all: torchcodec counts by duration in approximate mode, and that of mkv is
rounded down. PyAV (seek by time), torchcodec (exact and approximate), decord2 and OpenCV
are asked for every frame, in random order, each in a process of its own, in an
environment of their own that is made in the cache folder, or that --environment names.

    python tests/check_readers.py [--environment DIR] [READER...]

Not part of the default tests, as it installs torch. Needs `make encoder`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import media
from readers_probe import READERS

from sparseframes import check_ddra, transcode

FRAMES = 100
PERIOD = 32
PROBE = Path(__file__).with_name("readers_probe.py")


CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sparseframes"
PACKAGES = (
    ("numpy", "av", "torch==2.13.0"),
    # their own dependencies would bring other builds of these
    ("--no-deps", "torchcodec==0.13.0", "decord2", "opencv-python-headless"),
)
LIBRARY = re.compile(r"(lib(?:av|sw)\w+)-[0-9a-f]+\.so\.(\d+)")


def environment(folder: Path) -> tuple[Path, dict[str, str]]:
    """The Python with the readers, made if it is not there, and the variables to run it with."""
    python, done = folder / "bin" / "python", folder / "installed"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    if not done.exists():
        for packages in PACKAGES:
            subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
        done.touch()
    # torchcodec brings no FFmpeg: it is given that of PyAV's wheel, under the names it looks for
    libraries = next(folder.glob("lib/python3*/site-packages/av.libs"))
    links = folder / "ffmpeg"
    links.mkdir(exist_ok=True)
    for library in libraries.iterdir():
        match = LIBRARY.match(library.name)
        if match and not (links / f"{match[1]}.so.{match[2]}").exists():
            (links / f"{match[1]}.so.{match[2]}").symlink_to(library)
    variables = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    variables["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, (libraries, links)))
    variables["OPENCV_LOG_LEVEL"] = "ERROR"
    return python, variables


def check(
    python: Path, variables: dict[str, str], reader: str, path: Path, count: int | None = None
) -> tuple[str, int]:
    """What is wrong with a reader's frames, empty if nothing is; and how many it finds.

    count: how many it is to find; None: at least all but one.
    """
    if not reader.startswith("torchcodec"):
        variables = {key: value for key, value in variables.items() if key != "LD_LIBRARY_PATH"}
    done = subprocess.run(
        [str(python), str(PROBE), reader, str(path)],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return f"failed: {lines[-1] if lines else done.returncode}", 0
    told = json.loads(done.stdout.splitlines()[-1])
    wrong = [(k, number) for k, number in told["read"] if k != number]
    found = told["count"]
    if found != count if count is not None else found not in (FRAMES - 1, FRAMES):
        return f"{found} frames", found
    assert len(told["read"]) > found
    fault = f"{len(wrong)} of {len(told['read'])} wrong, first {wrong[0]}" if wrong else ""
    return fault, found


def main() -> int:
    """Make the files, ask all readers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("readers", nargs="*", default=list(READERS))
    parser.add_argument("--environment", type=Path, default=CACHE / "readers")
    arguments = parser.parse_args()
    python, variables = environment(arguments.environment)
    faults: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source.mp4"
        media.encode(source, numbers=range(FRAMES), size=(128, 96), crf="10", preset="ultrafast")
        counts: dict[tuple[str, str], int] = {}
        for suffix in (".mp4", ".mkv"):
            path = Path(folder) / f"ordinary{suffix}"
            media.encode(path, numbers=range(FRAMES), size=(128, 96), crf="10", preset="ultrafast")
            for reader in arguments.readers:
                fault, count = check(python, variables, reader, path)
                counts[reader, suffix] = count
                print(f"{path.name:16} {reader:24} {fault or f'right, {count} frames'}", flush=True)
        for codec in ("h264", "hevc"):
            for idr in (0, 2):
                for suffix in (".mp4", ".mkv"):
                    path = Path(folder) / f"{codec}_idr{idr}{suffix}"
                    transcode(source, path, codec, PERIOD, idr=idr, preset="veryfast", threads=1)
                    assert check_ddra(path).ok
                    for reader in arguments.readers:
                        fault, _ = check(python, variables, reader, path, counts[reader, suffix])
                        faults[reader] += bool(fault)
                        print(f"{path.name:16} {reader:24} {fault or 'right'}", flush=True)
    wrong = sorted(reader for reader in faults if faults[reader])
    print(f"wrong: {', '.join(wrong)}" if wrong else "every reader gave every frame right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
