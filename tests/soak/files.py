"""100,000 requests over 2,000 files: memory and file descriptors stay as they are.

Half of the decoders are closed, the other half left to the garbage collector.
"""

from __future__ import annotations

import random
from pathlib import Path

from soak.common import FRAMES, check, copies, descriptors, inputs, resident
from sparseframes import VideoDecoder

REQUESTS, FILES, BURST = 100_000, 2_000, 10


def run(folder: Path, scale: float) -> str:
    made = copies(inputs(folder), folder, max(10, int(FILES * min(1.0, scale))))
    rng = random.Random(1)
    paths = list(made)
    requests = max(1_000, int(REQUESTS * scale))
    done = 0
    seen: list[tuple[int, int]] = []
    while done < requests:
        path = rng.choice(paths)
        decoder = VideoDecoder(path, pixel_format="native")
        for _ in range(BURST):
            check(decoder, rng.choices(range(FRAMES), k=rng.randint(1, 3)), made[path])
        done += BURST
        if rng.random() < 0.5:
            decoder.close()
        del decoder
        if done % max(BURST, requests // 20) < BURST:
            seen.append((resident(), descriptors()))
    # the first half fills caches and the allocator
    settled = seen[len(seen) // 2 :]
    growth = max(memory for memory, _ in settled) - settled[0][0]
    opened = [count for _, count in seen]
    said = (
        f"{done} requests over {len(paths)} files, memory {settled[0][0] >> 20} MiB and "
        f"{growth / (1 << 20):+.1f} MiB at most afterwards, file descriptors {min(opened)} to "
        f"{max(opened)}"
    )
    assert growth < 24 << 20, said
    assert max(opened) - min(opened) <= 2, said
    return said
