"""What the bitstream filter sparse_select saves against the filter select.

    python -m bench.sparse_select FILES

For sets of frames of each file: the pictures that are reconstructed, and the CPU time of the
program, the least of some runs, in which the two take turns. Both run with one decoder thread and
throw the frames away. Needs `make encoder`.
"""

from __future__ import annotations

import random
import re
import resource
import subprocess
import sys
from pathlib import Path

from sparseframes import VideoDecoder
from sparseframes.encode import find_program

ROUNDS = 3


def cpu_seconds(arguments: list[str]) -> tuple[float, str]:
    """CPU time of a run of the program, and what it said."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [str(find_program()), "-hide_banner", "-nostdin", "-v", "verbose", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, done.stderr


def measure(path: str, wanted: list[int]) -> tuple[int, float, float]:
    """Pictures reconstructed, and the seconds of sparse_select and of select."""
    tail = ["-map", "0:v:0", "-fps_mode", "passthrough", "-f", "null", "-"]
    sparse = ["-bsf:v", "sparse_select=frames=" + "+".join(map(str, wanted)), "-i", path, *tail]
    expression = "+".join(f"eq(n,{k})" for k in wanted)
    linear = ["-threads", "1", "-i", path, "-vf", f"select='{expression}'", *tail]
    first, second = [], []
    for _ in range(ROUNDS):
        spent, said = cpu_seconds(sparse)
        first.append(spent)
        second.append(cpu_seconds(linear)[0])
    found = re.search(r"(\d+) packets were reconstructed", said)
    assert found is not None, said
    return int(found[1]), min(first), min(second)


def main() -> int:
    """Measure the files and print a table in Markdown."""
    print("| file | frames | selected | reconstructed | sparse_select, ms | select, ms | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name in sys.argv[1:]:
        with VideoDecoder(name) as decoder:
            count = len(decoder)
        chosen = random.Random(0)
        for wanted in ([chosen.randrange(count)], sorted(chosen.sample(range(count), 10))):
            pictures, sparse, linear = measure(name, wanted)
            print(
                f"| {Path(name).name} | {count} | {len(wanted)} | {pictures} "
                f"| {sparse * 1e3:.0f} | {linear * 1e3:.0f} | {linear / sparse:.1f} |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
