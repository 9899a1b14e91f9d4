"""Run the soaks: ``python -m soak [--scale 1.0] [NAME...]`` in ``tests``."""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path

NAMES = ("files", "threads", "forks", "loader", "closing")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m soak")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of requests")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"no such soak: {', '.join(sorted(unknown))}")
    failed = 0
    for name in arguments.names or NAMES:
        begun, cpu = time.monotonic(), time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            try:
                said = importlib.import_module(f"soak.{name}").run(Path(folder), arguments.scale)
                words = "ok"
            except AssertionError as error:
                said, words = str(error), "FAILED"
                failed += 1
        print(
            f"{name}: {words}: {said} ({time.monotonic() - begun:.0f} s, "
            f"{time.process_time() - cpu:.0f} s of CPU time here)",
            flush=True,
        )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
