"""Forks after the opening: children read on with what they inherited, and so does the parent."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from soak.common import FRAMES, check, inputs
from sparseframes import VideoDecoder

FORKS = 200


def run(folder: Path, scale: float) -> str:
    made = inputs(folder)
    decoders = {path: VideoDecoder(path, pixel_format="native") for path in made}
    rng = random.Random(3)
    forks = max(10, int(FORKS * scale))

    def some() -> None:
        for path, decoder in decoders.items():
            check(decoder, rng.choices(range(FRAMES), k=3), made[path])

    some()
    for number in range(forks):
        sys.stdout.flush()
        child = os.fork()
        if not child:
            code = 1
            try:
                rng.seed(number)
                some()
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert status == 0, f"child {number} ended with status {status}"
        some()
    for decoder in decoders.values():
        decoder.close()
    return f"{forks} forks with {len(decoders)} open decoders"
