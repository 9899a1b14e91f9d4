"""What only this project has: kept pictures, threads over a batch, saved indexes, open readers.

Each measurement runs in a process of its own: ``python -m bench.own NAME`` reads its arguments as
JSON on stdin and prints its figures. A feature that this version lacks is an error that names it.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import sparseframes
from bench.memory import resident
from bench.patterns import FOUR, PATTERNS
from bench.profile import PROGRAM
from sparseframes.errors import UnsupportedError


def _requests(paths: list[str], frames: list[int], rounds: int, seed: int) -> list[Any]:
    """One epoch: rounds requests of each of the patterns of each clip, shuffled."""
    rng = np.random.default_rng(seed)
    samples = [
        (path, PATTERNS[pattern](rng, count))
        for path, count in zip(paths, frames, strict=True)
        for pattern in FOUR
        for _ in range(rounds)
    ]
    return [samples[k] for k in rng.permutation(len(samples))]


def epochs(paths: list[str], frames: list[int], rounds: int, repeats: int) -> dict[str, Any]:
    """CPU time of a first and a second epoch over the same files.

    The second one has the first one's samples in another order, as a map-style data set gives
    them, or other random frames of the same files, as random clips do. Files are opened for each
    request and closed after it, as data loaders do it. The pictures that are kept are thrown away
    before each first epoch.
    """
    kinds = {kind: _two_epochs(kind, paths, frames, rounds, repeats) for kind in ("same", "other")}
    return {**kinds["same"], "other": kinds["other"]}


def _two_epochs(
    kind: str, paths: list[str], frames: list[int], rounds: int, repeats: int
) -> dict[str, Any]:
    pairs, hits = [], 0
    for repeat in range(repeats):
        sparseframes.set_cache_budget(256 << 20)
        sparseframes.clear_cache()
        first = _requests(paths, frames, rounds, 100 * repeat)
        if kind == "same":
            order = np.random.default_rng(repeat).permutation(len(first))
            second = [first[k] for k in order]
        else:
            second = _requests(paths, frames, rounds, 100 * repeat + 1)
        before, _ = _epoch(first)
        after, kept = _epoch(second)
        pairs.append([before, after])
        hits += kept
    ratios = [first / second for first, second in pairs]
    return {"ratio": statistics.median(ratios), "ratios": ratios, "seconds": pairs, "hits": hits}


def _epoch(samples: list[Any]) -> tuple[float, int]:
    """CPU seconds of the samples, and pictures that had been kept."""
    hits, begun = 0, time.process_time()
    for path, indices in samples:
        with sparseframes.VideoDecoder(path) as decoder:
            decoder.get_frames_at(indices)
            hits += decoder.stats.pictures_from_cache
    return time.process_time() - begun, hits


def threads(paths: list[str], frames: list[int], repeats: int) -> dict[str, Any]:
    """Wall time of decode_batch with one thread and with two, alternating."""
    sparseframes.set_cache_budget(0)
    times: dict[int, list[float]] = {1: [], 2: []}
    load = os.getloadavg()[0]
    for repeat in range(repeats + 1):
        samples = _requests(paths, frames, 1, repeat)
        for count in (1, 2) if repeat % 2 else (2, 1):
            begun = time.perf_counter()
            sparseframes.decode_batch(samples, threads=count)
            if repeat:  # the first is for warming up
                times[count].append(time.perf_counter() - begun)
    ratios = [one / two for one, two in zip(times[1], times[2], strict=True)]
    return {
        "ratio": statistics.median(ratios),
        "best": min(times[1]) / min(times[2]),
        "ratios": ratios,
        "load_average": load,
    }


def readers(paths: list[str], frames: list[int], count: int) -> dict[str, Any]:
    """Resident memory with that many open readers of different files, each used once."""
    before = resident()
    opened = []
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(1)
        for k in range(count):
            path = Path(folder) / f"{k}.mp4"
            shutil.copyfile(paths[k % len(paths)], path)
            decoder = sparseframes.VideoDecoder(path)
            opened.append(decoder)
            decoder.get_frames_at(PATTERNS["window"](rng, frames[k % len(paths)]))
        after = resident()
        for decoder in opened:
            decoder.close()
    return {"mib": after / 2**20, "before_mib": before / 2**20, "readers": count}


def saved(paths: list[str]) -> dict[str, Any]:
    """Bytes of saved indexes for each picture, of the files that can have one."""
    sizes, pictures, means, without = 0, 0, [], []
    with tempfile.TemporaryDirectory() as folder:
        for number, path in enumerate(paths):
            index = Path(folder) / f"{number}.sparse"
            with sparseframes.VideoDecoder(path) as decoder:
                try:
                    decoder.save_index(str(index))
                except UnsupportedError:
                    without.append(path)
                    continue
                count = len(decoder)
            size = index.stat().st_size
            sizes, pictures = sizes + size, pictures + count
            means.append(size / count)
    return {
        "mean": sizes / pictures,
        "by_file": means,
        "pictures": pictures,
        "without": [Path(path).name for path in without],
    }


def warm(paths: list[str]) -> dict[str, Any]:
    """A warm request / (its pictures' own linear decode + conversion), by file and pattern.

    build/tests/request_times takes both in turns, in one process and without Python's share.
    """
    if not PROGRAM.exists():
        raise RuntimeError("build/tests/request_times is not there: make build")
    result = subprocess.run([str(PROGRAM), *paths], capture_output=True, text=True, check=True)
    ratios: dict[str, dict[str, float]] = {}
    for line in result.stdout.splitlines():
        if ": conversion" in line:
            of_file = ratios.setdefault(Path(line.partition(": conversion")[0]).name, {})
        elif ", ratio " in line:
            of_file[line.split()[0]] = float(line.rpartition(", ratio ")[2])
    flat = [
        (ratio, file, pattern) for file, row in ratios.items() for pattern, ratio in row.items()
    ]
    worst, file, pattern = max(flat)
    return {
        "worst": worst,
        "where": f"{file}, {pattern}",
        "median": statistics.median(ratio for ratio, _, _ in flat),
        "ratios": ratios,
    }


MEASUREMENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "epochs": epochs,
    "threads": threads,
    "readers": readers,
    "saved": saved,
    "warm": warm,
}


def measure(name: str, **arguments: Any) -> dict[str, Any]:
    """Run one of them in a process of its own; its figures, or the error."""
    result = subprocess.run(
        [sys.executable, "-m", "bench.own", name],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parent.parent,
    )
    lines = result.stdout.strip().splitlines()
    if not lines:
        return {"error": (result.stderr.strip().splitlines() or ["stopped before its end"])[-1]}
    figures: dict[str, Any] = json.loads(lines[-1])
    return figures


if __name__ == "__main__":
    try:
        print(json.dumps(MEASUREMENTS[sys.argv[1]](**json.load(sys.stdin))))
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"[:300]}))
        sys.exit(1)
