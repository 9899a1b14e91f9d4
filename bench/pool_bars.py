"""What kept pictures, shared decoders and threads bring: `python -m bench.pool_bars PART FILE...`.

Parts: epochs (a second pass over the same DDRA clips), memory (100 open readers, each of a
file of its own), threads (decode_batch in one thread and in two).
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.memory import resident
from bench.patterns import PATTERNS
from sparseframes import (
    VideoDecoder,
    cache_info,
    clear_cache,
    decode_batch,
    set_cache_budget,
)

READERS = 100


def _requests(rng: np.random.Generator, pattern: str, paths: list[str]) -> list[Any]:
    asked = []
    for path in paths:
        with VideoDecoder(path) as decoder:
            frames = len(decoder)
        asked += [(path, PATTERNS[pattern](rng, frames)) for _ in range(15)]
    return [asked[k] for k in rng.permutation(len(asked))]


def epochs(paths: list[str]) -> dict[str, Any]:
    """CPU time of two epochs of other random requests, the file opened for each request."""
    results = {}
    for pattern in ("single", "window", "stride 4", "stride 30", "contiguous"):
        ratios, counts = [], []
        for seed in range(3):
            clear_cache()
            spent = []
            for epoch in range(2):
                rng = np.random.default_rng(100 * seed + epoch)
                asked = _requests(rng, pattern, paths)
                pictures, begun = 0, time.process_time()
                for path, indices in asked:
                    with VideoDecoder(path) as decoder:
                        decoder.get_frames_at(indices)
                        pictures += decoder.stats.pictures_reconstructed
                spent.append(time.process_time() - begun)
                counts.append(pictures)
            ratios.append(spent[0] / spent[1])
        results[pattern] = {
            "speedup": statistics.median(ratios),
            "pictures": [sum(counts[0::2]), sum(counts[1::2])],
        }
    return results


def memory(paths: list[str]) -> dict[str, Any]:
    """Resident MiB with 100 readers of 100 files open, after a request of ten frames to each."""
    start = resident() / 2**20
    with tempfile.TemporaryDirectory() as folder:
        copies = []
        for k in range(READERS):
            copies.append(str(Path(folder) / f"{k}.mp4"))
            shutil.copy(paths[k % len(paths)], copies[-1])
        time.sleep(0.2)  # see sparse.h: what was just written isn't shared
        rng = np.random.default_rng(1)
        opened = []
        for path in copies:
            decoder = VideoDecoder(path)
            decoder.get_frames_at(PATTERNS["contiguous"](rng, len(decoder)))
            opened.append(decoder)
        after = resident() / 2**20
        info = cache_info()
        for decoder in opened:
            decoder.close()
    return {"before_mib": start, "after_mib": after, "cache": info.__dict__}


def threads(paths: list[str]) -> dict[str, Any]:
    """Wall and CPU time of one batch in one thread and in two, nothing kept."""
    set_cache_budget(0)
    decoders = [VideoDecoder(path) for path in paths]
    rng = np.random.default_rng(2)
    items = [(decoder, PATTERNS["window"](rng, len(decoder))) for decoder in decoders]
    out = [np.zeros_like(data) for data in decode_batch(items)]
    wall: dict[int, list[float]] = {1: [], 2: []}
    bounds = []
    for _ in range(5):
        alone = 0.0
        for count in (1, 2):
            begun, cpu, mine = time.perf_counter(), time.process_time(), time.thread_time()
            decode_batch(items, threads=count, out=out)
            wall[count].append(time.perf_counter() - begun)
            cpu, mine = time.process_time() - cpu, time.thread_time() - mine
            if count == 1:
                alone = cpu
            else:
                bounds.append(alone / max(mine, cpu - mine))
    return {
        "wall_speedup": statistics.median(wall[1]) / statistics.median(wall[2]),
        # what would remain with a processor for each thread
        "speedup_by_cpu_time": statistics.median(bounds),
        "threads_left": threading.active_count() - 1,
        "load": Path("/proc/loadavg").read_text().split()[0],
    }


def main() -> int:
    parts = {"epochs": epochs, "memory": memory, "threads": threads}
    if len(sys.argv) < 3 or sys.argv[1] not in parts:
        print(__doc__)
        return 2
    print(json.dumps(parts[sys.argv[1]](sys.argv[2:]), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
