"""The period that suits a file, by a short trial on it."""

from __future__ import annotations

import dataclasses
import math
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparseframes._decoder import VideoDecoder
from sparseframes.encode._program import run
from sparseframes.encode._settings import Settings

TRIED = (8, 16, 32, 64)
FRAMES = 193
"""Length of the part that is tried: three whole intervals of the longest period."""

DECODE_WEIGHT = 0.25
"""What decode time counts beside size: a quarter more of it is worth a sixteenth of the size."""

CRF_STEP = 4.0
READS, ROUNDS = 40, 3


@dataclass(frozen=True)
class Trial:
    """One period on a part of a file.

    Attributes:
        period: the period.
        size: bytes of the part, as they would be at the PSNR that the period 32 has.
        decode_seconds: of CPU for a random frame.
        cost: size and decode time in shares of the period 32's, the latter times `DECODE_WEIGHT`.
    """

    period: int
    size: float
    decode_seconds: float
    cost: float


def choose_period(
    source: str, settings: Settings, video: dict[str, Any], duration: float
) -> tuple[int, list[Trial]]:
    """The period of `TRIED` with the least cost, and what was measured."""
    from sparseframes.encode._transcode import compare, odd_size_arguments

    start = max(duration / 2 - FRAMES / 60, 0.0)
    with tempfile.TemporaryDirectory(prefix="sparseframes-") as folder:
        part = Path(folder) / "part.nut"
        run(
            [
                *("-noautorotate", "-ss", f"{start:.3f}", "-i", f"file:{source}"),
                *("-map", f"0:{video['index']}", "-frames:v", str(FRAMES)),
                *("-fps_mode", "passthrough", "-c:v", "ffv1", "-f", "nut", f"file:{part}"),
            ],
            source,
        )

        def trial(period: int, crf: float | None) -> tuple[Path, int, float]:
            target = Path(folder) / f"{period}-{crf}.mkv"
            chosen = dataclasses.replace(settings, period=period, crf=crf)
            run(
                [
                    *("-i", f"file:{part}", "-fps_mode", "passthrough", *chosen.arguments()),
                    *(*odd_size_arguments(video, settings), f"file:{target}"),
                ],
                source,
            )
            psnr, _ = compare(str(part), str(target))
            return target, target.stat().st_size, psnr

        middle = settings.quality
        made = {period: trial(period, middle) for period in TRIED}
        base_size, base_psnr = made[32][1:]
        _, small, worse = trial(32, middle + CRF_STEP)
        # logarithm of the size for one dB
        slope = math.log(base_size / small) / (base_psnr - worse) if base_psnr > worse else 0.0
        times = {period: _decode_seconds(made[period][0]) for period in TRIED}
    trials = []
    for period in TRIED:
        _, size, psnr = made[period]
        gain = slope * (psnr - base_psnr) if math.isfinite(psnr - base_psnr) else 0.0
        fair = size * math.exp(-gain)
        cost = fair / base_size + DECODE_WEIGHT * times[period] / times[32]
        trials.append(Trial(period, fair, times[period], cost))
    return min(trials, key=lambda each: each.cost).period, trials


def _decode_seconds(path: Path) -> float:
    """CPU seconds for a frame asked for alone, the best of some rounds."""
    with VideoDecoder(str(path)) as decoder:
        count = len(decoder)
        chosen = random.Random(0)  # even distances would fall in step with some periods
        frames = [chosen.randrange(count) for _ in range(READS)]
        best = math.inf
        for _ in range(ROUNDS):
            begun = time.process_time()
            for frame in frames:
                decoder.get_frame_at(frame)
            best = min(best, time.process_time() - begun)
    return best / READS
