"""What a request costs, against a linear decode of the very same file in the same run.

Times are CPU seconds of this process: other load on the machine counts less. Blocks of the two
sides alternate, and the medians are compared. A closure holds the reference pictures, which take
longer than most, so a request is compared with the linear decode's time of the very same pictures,
too.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np

from bench import patterns
from bench.memory import resident
from bench.patterns import Pattern
from sparseframes import VideoDecoder
from sparseframes._binding import Reader
from sparseframes._source import PathSource

PATTERNS: dict[str, Pattern] = {
    **{name: pattern for name, pattern in patterns.PATTERNS.items() if name != patterns.WHOLE},
    # the very pictures of the linear decode: what restoring costs
    "all": lambda rng, n: list(range(min(n, 300))),
}


@dataclass
class Cost:
    """Figures of one file. Times are CPU milliseconds."""

    file: str
    codec: str
    size: str
    pixels: int
    frames: int
    linear_ms: float
    """mean time a picture of the linear decode, without conversion"""
    header_us: float
    """mean time a packet of the header pass, reading included, in microseconds"""
    header_ratio: float
    """linear decode's time a picture / header pass's time a packet"""
    requests: dict[str, dict[str, float]]
    """by pattern: time, pictures, time / (pictures x linear + copying the planes), and the same
    with the linear decode's time of those very pictures"""


def _cpu(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _open(path: Path, index: str = "whole") -> Reader:
    return Reader(PathSource(str(path)), stream_index=None, threads=1, index=index)


def _request(reader: Reader, indices: np.ndarray, batch: np.ndarray) -> float:
    """CPU seconds of one request of native planes."""
    return _cpu(lambda: reader.get_frames(indices, "native", batch, 0, 0))


def _copy(batch: np.ndarray) -> float:
    """CPU seconds to copy as many bytes, within memory that is there."""
    batch.fill(1)
    source = batch[0].copy()

    def copy() -> None:
        for row in batch:
            np.copyto(row, source)

    return _cpu(copy)


class Linear:
    """Times of linear decodes, which drop their frames.

    A decoder holds back as many pictures as the stream's reordering needs, so the time until a
    frame comes out is that of the picture so many further on in decode order, and the time until
    the first is shared by all pictures up to there.
    """

    def __init__(self, path: Path, reader: Reader) -> None:
        with av.open(str(path)) as container:
            self.delay = int(container.streams.video[0].codec_context.has_b_frames)
        self.reader = reader
        self.passes: list[np.ndarray] = []

    def measure(self) -> None:
        """One pass more."""
        times = []
        with self.reader.linear() as linear:
            more = True
            while more:
                start = time.process_time()
                more = linear.skip()
                times.append(time.process_time() - start)
        frames = len(times) - 1
        held = min(self.delay, frames - 1)
        pictures = np.empty(frames)
        pictures[: held + 1] = times[0] / (held + 1)
        pictures[held + 1 :] = times[1 : frames - held]
        self.passes.append(pictures)

    @property
    def mean(self) -> float:
        """Mean seconds a picture, of the last pass."""
        return float(self.passes[-1].mean())

    @property
    def median(self) -> float:
        """Mean seconds a picture, the median of the passes."""
        return statistics.median(float(times.mean()) for times in self.passes)

    def of(self, pictures: np.ndarray) -> float:
        """Seconds for pictures by their ids, at the speed of the last pass."""
        times = np.median(self.passes, axis=0)
        return float(times[pictures].sum() * self.passes[-1].sum() / times.sum())


def measure(path: Path, requests: int, seed: int) -> Cost:
    """Measure one file."""
    rng = np.random.default_rng(seed)
    with VideoDecoder(path) as decoder:
        frames = len(decoder)
        meta = decoder.metadata
    reader = _open(path)
    linear = Linear(path, reader)
    for _ in range(3):
        linear.measure()

    passes = []
    for _ in range(15):
        fresh = _open(path)
        seconds = _cpu(fresh.build_index)
        passes.append(seconds / fresh.stats()["state_only_packets"])
        fresh.close()
    header = statistics.median(passes)

    reader.build_index()
    layout = reader.layout(0, "native")
    results = {}
    for name, pattern in PATTERNS.items():
        ratios, own_ratios, times, pictures = [], [], [], []
        for k in range(requests):
            indices = np.asarray(pattern(rng, frames), np.int64)
            batch = np.zeros((len(indices), layout.size), np.uint8)
            # the planes are copied once more than a decoder does: that is the conversion here
            copied = _copy(batch)
            if k % 8 == 0:  # the machine's speed drifts
                linear.measure()
            closure = reader.plan(indices).reconstruct
            reader.reset_stats()
            spent = _request(reader, indices, batch)
            count = reader.stats()["pictures_reconstructed"]
            ratios.append(spent / (count * linear.mean + copied))
            own_ratios.append(spent / (linear.of(closure) + copied))
            times.append(spent * 1e3)
            pictures.append(count)
        results[name] = {
            "ms": statistics.median(times),
            "pictures": statistics.fmean(pictures),
            "ratio": statistics.median(ratios),
            "ratio_of_those": statistics.median(own_ratios),
        }
    reader.close()
    return Cost(
        path.name,
        meta.codec or "",
        f"{meta.width}x{meta.height}",
        layout.width * layout.height,
        frames,
        linear.median * 1e3,
        header * 1e6,
        linear.median / header,
        results,
    )


@dataclass
class Bytes:
    """What one request reads of an unindexed file whose sample table tells where things are."""

    file: str
    index: str
    file_bytes: int
    open_bytes: int
    header_pass_bytes: int
    closure_bytes: int
    """read to reconstruct the frame"""


def measure_bytes(path: Path, index: str, seed: int) -> Bytes:
    """One random frame, from an open file to its pixels."""
    rng = np.random.default_rng(seed)
    reader = _open(path, index)
    opened = reader.stats()["source_bytes"]
    target = np.asarray([int(rng.integers(reader.frame_count()))], np.int64)
    layout = reader.layout(int(target[0]), "native")
    reader.plan(target)
    planned = reader.stats()["source_bytes"]
    _request(reader, target, np.empty((1, layout.size), np.uint8))
    closure = reader.stats()["source_bytes"] - planned
    reader.close()
    return Bytes(path.name, index, path.stat().st_size, opened, planned - opened, closure)


def measure_memory(path: Path, requests: int, seed: int) -> dict[str, float]:
    """Resident memory after a tenth of the requests and after all, in MiB."""
    rng = np.random.default_rng(seed)
    marks = []
    with VideoDecoder(path) as decoder:
        count = len(decoder)
        for k in range(requests):
            decoder.get_frames_at([int(rng.integers(count))])
            if k + 1 in (requests // 10, requests):
                marks.append(resident() / 2**20)
    return {"requests": requests, "after_tenth_mib": marks[0], "after_all_mib": marks[-1]}


def as_dict(cost: Cost | Bytes) -> dict[str, Any]:
    """For JSON."""
    return asdict(cost)
