"""Eight threads with a decoder each over the same files, half of them with more threads inside."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

from soak.common import FRAMES, check, inputs, tasks
from sparseframes import VideoDecoder

THREADS, REQUESTS = 8, 4_000


def run(folder: Path, scale: float) -> str:
    made = inputs(folder)
    before = tasks()
    failures: list[BaseException] = []
    each = max(20, int(REQUESTS * scale) // THREADS)

    def work(number: int) -> None:
        rng = random.Random(number)
        try:
            for _ in range(each // 20):
                path = rng.choice(list(made))
                with VideoDecoder(path, pixel_format="native", threads=1 + number % 2) as decoder:
                    for _ in range(20):
                        check(decoder, rng.choices(range(FRAMES), k=4), made[path])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    # the system takes a moment to forget a thread that has ended
    until = time.monotonic() + 5
    while tasks() > before and time.monotonic() < until:
        time.sleep(0.05)
    assert tasks() <= before, f"{tasks()} threads, {before} before"
    return f"{THREADS} threads, {each} requests each"
