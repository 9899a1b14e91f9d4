"""Write the odd streams to a folder: ``python -m synthetic [--small] FOLDER``, run in ``tests``.

With --small short ones only, as seeds for fuzzing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from synthetic import container_cases, h264_cases, hevc_cases
from synthetic.random_streams import random_h264, random_hevc

# a seed for fuzzing
SMALL = 40_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m synthetic")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    streams = {
        case.name + case.suffix: case.make() for case in (*h264_cases.CASES, *hevc_cases.CASES)
    }
    for seed in range(8):
        streams[f"random_{seed}.264"] = random_h264(seed, groups=1)
        streams[f"random_{seed}.hevc"] = random_hevc(seed, groups=1)
    with tempfile.TemporaryDirectory() as inputs:
        for case in container_cases.CASES:
            path = Path(inputs) / case.name
            case.make(path, Path(inputs))
            streams[case.name] = path.read_bytes()
    for name, data in streams.items():
        if len(data) <= SMALL or not arguments.small:
            (arguments.folder / name).write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
