#!/usr/bin/env python3
"""Check that other libraries read the right frame at every index of DDRA files.

The files are of both codecs, with and without later IDR pictures, in mp4 and mkv, and each picture
holds its own number. PyAV (seek by time), torchcodec (exact and approximate), decord2 and OpenCV
are asked for every frame in random order and backwards, each in a process of its own, in the
environment that `python -m bench` makes for other loaders.

    python tests/check_readers.py [READER...]

Not part of the default tests, as it installs torch. Needs `make encoder`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import media
from bench.peers import Peers
from readers_probe import READERS

from sparseframes import check_ddra, transcode

FRAMES = 150
PERIOD = 32
PROBE = Path(__file__).with_name("readers_probe.py")


def command(peers: Peers, reader: str, path: Path) -> tuple[list[str], dict[str, str]]:
    """How to run the probe where the reader is installed."""
    # the worker's command is [python, -m, module, ...]
    worker, environment = peers.command(reader)
    environment["PYTHONPATH"] = ""
    return [worker[0], str(PROBE), reader, str(path)], environment


def check(peers: Peers, reader: str, path: Path) -> str:
    """What is wrong with a reader's frames; empty if nothing is."""
    arguments, environment = command(peers, reader, path)
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return f"failed: {lines[-1] if lines else done.returncode}"
    told = json.loads(done.stdout.splitlines()[-1])
    wrong = [(k, number) for k, number in told["read"] if k != number]
    if told["count"] != FRAMES:
        return f"{told['count']} frames"
    assert len(told["read"]) == 2 * FRAMES
    return f"{len(wrong)} of {len(told['read'])} wrong, first {wrong[0]}" if wrong else ""


def main() -> int:
    """Make the files, ask all readers."""
    readers = sys.argv[1:] or list(READERS)
    peers = Peers()
    peers.install()
    faults: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source.mp4"
        media.encode(source, numbers=range(FRAMES), size=(128, 96), crf="10", preset="ultrafast")
        for codec in ("h264", "hevc"):
            for idr in (0, 2):
                for suffix in (".mp4", ".mkv"):
                    path = Path(folder) / f"{codec}_idr{idr}{suffix}"
                    transcode(source, path, codec, PERIOD, idr=idr, preset="veryfast", threads=1)
                    assert check_ddra(path).ok
                    for reader in readers:
                        fault = check(peers, reader, path)
                        faults[reader] += bool(fault)
                        print(f"{path.name:16} {reader:24} {fault or 'right'}", flush=True)
    wrong = sorted(reader for reader in faults if faults[reader])
    print(f"wrong: {', '.join(wrong)}" if wrong else "every reader gave every frame right")
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.setdefault("OPENCV_LOG_LEVEL", "ERROR")
    sys.exit(main())
