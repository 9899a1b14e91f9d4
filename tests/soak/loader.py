"""A loader whose four workers are killed in the middle of batches.

With torch, a DataLoader: the loss of a worker is an error in the parent, never a hang or a wrong
frame, and a new loader over the same data set goes on. Without torch, processes that do the same.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

from soak.common import FRAMES, check, inputs
from sparseframes import VideoDecoder

WORKERS, ROUNDS = 4, 12


class Clips:
    """A data set of single frames that checks each of them; decoders live as long as a worker."""

    def __init__(self, made: dict[Path, list[bytes]]) -> None:
        self.made = made
        self.paths = list(made)
        self.decoders: dict[Path, VideoDecoder] = {
            path: VideoDecoder(path, pixel_format="native") for path in self.paths
        }

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, number: int) -> int:
        path = self.paths[number % len(self.paths)]
        index = number * 7 % FRAMES
        check(self.decoders[path], [index], self.made[path])
        return number


def _serve(clips: Clips, queue: Any, first: int) -> None:
    number = first
    while True:
        queue.put(clips[number])
        number += WORKERS


def _with_processes(clips: Clips, rng: random.Random) -> int:
    context = multiprocessing.get_context("fork")
    # a queue a worker: one that is killed may hold its queue's lock
    queues = [context.Queue(8) for _ in range(WORKERS)]
    workers = [
        context.Process(target=_serve, args=(clips, queue, k), daemon=True)
        for k, queue in enumerate(queues)
    ]
    for worker in workers:
        worker.start()
    got = 0
    for _ in range(rng.randint(5, 40)):
        for k, queue in enumerate(queues):
            assert queue.get(timeout=120) % WORKERS == k
            got += 1
    for worker in workers:
        os.kill(worker.pid or 0, signal.SIGKILL)
    for worker in workers:
        worker.join()
        assert worker.exitcode == -signal.SIGKILL, f"a worker had ended with {worker.exitcode}"
    return got


def _with_torch(clips: Clips, rng: random.Random, data: Any) -> int:
    loader = data.DataLoader(clips, batch_size=4, num_workers=WORKERS, shuffle=False)
    iterator = iter(loader)
    got = sum(len(next(iterator)) for _ in range(rng.randint(5, 40)))
    victims = [worker.pid for worker in iterator._workers]

    def kill() -> None:
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for batch in iterator:
            got += len(batch)
        raise AssertionError("the loader went on without workers")
    except RuntimeError:
        pass
    killer.join()
    return got


def run(folder: Path, scale: float) -> str:
    try:
        from torch.utils import data
    except ImportError:
        data = None
    clips = Clips(inputs(folder))
    rng = random.Random(4)
    rounds = max(2, int(ROUNDS * scale))
    got = 0
    for _ in range(rounds):
        got += _with_torch(clips, rng, data) if data else _with_processes(clips, rng)
        clips[rng.randrange(1000)]  # the parent reads on
    kind = "DataLoader" if data else "processes, without torch"
    return f"{kind}: {rounds} times {WORKERS} workers killed, {got} frames before"
