"""Decoders that are closed while other threads read: those get an error, and nothing crashes."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import sparseframes
from soak.common import FRAMES, check, inputs
from sparseframes import VideoDecoder

ROUNDS = 1_000


def run(folder: Path, scale: float) -> str:
    made = inputs(folder)
    rng = random.Random(5)
    closed = 0
    rounds = max(20, int(ROUNDS * scale))
    for _ in range(rounds):
        path = rng.choice(list(made))
        decoder = VideoDecoder(path, pixel_format="native", threads=rng.choice((1, 2)))
        failures: list[BaseException] = []
        ended: list[bool] = []

        def read(seed: int, decoder: VideoDecoder = decoder, path: Path = path) -> None:
            mine = random.Random(seed)
            try:
                while True:
                    check(decoder, mine.choices(range(FRAMES), k=4), made[path])
            except sparseframes.ClosedError:
                ended.append(True)  # noqa: B023
            except BaseException as error:
                failures.append(error)  # noqa: B023

        readers = [threading.Thread(target=read, args=(seed,)) for seed in range(2)]
        for thread in readers:
            thread.start()
        time.sleep(rng.random() * 0.01)
        decoder.close()
        for thread in readers:
            thread.join()
        assert not failures, failures[0]
        closed += len(ended)
    assert closed == 2 * rounds
    return f"{rounds} decoders closed under two readers each"
