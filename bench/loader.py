"""A DataLoader with two workers over the clips: samples a second.

Run as ``python -m bench.loader ARM`` by an arm's Python, with the samples as JSON on stdin. Each
sample is a file opened, ten frames read, and the file closed, as map-style data sets do it.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

from bench import arms

WORKERS, BATCH = 2, 2


def main(name: str) -> dict[str, Any]:
    """Read all samples once; wall seconds from the first batch on, CPU seconds of the workers."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    samples: list[tuple[str, list[int]]] = json.load(sys.stdin)
    torch.set_num_threads(1)

    class Samples(Dataset):  # type: ignore[type-arg]
        arm: arms.Arm | None = None

        def __len__(self) -> int:
            return len(samples)

        def __getitem__(self, k: int) -> Any:
            if self.arm is None:  # in the worker, so that nothing is open at the fork
                self.arm = arms.make(name)
            path, indices = samples[k]
            handle = self.arm.open(path)
            frames = self.arm.read(handle, indices)
            self.arm.close(handle)
            if isinstance(frames, list):
                return torch.stack([torch.from_numpy(frame) for frame in frames])
            return torch.from_numpy(frames)

    loader = DataLoader(
        Samples(), batch_size=BATCH, num_workers=WORKERS, collate_fn=list, shuffle=False
    )
    begun, counted, batches = 0.0, 0, iter(loader)
    next(batches)  # starting the workers is not what is measured
    begun = time.perf_counter()
    for batch in batches:
        counted += len(batch)
    seconds = time.perf_counter() - begun
    del batches
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "samples_per_second": counted / seconds,
        "cpu_ms_per_sample": 1e3 * (usage.ru_utime + usage.ru_stime) / len(samples),
    }


if __name__ == "__main__":
    try:
        print(json.dumps(main(sys.argv[1])))
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"[:300]}))
        sys.exit(1)
