"""Amplification against stride, K and T: the analytic model and what files really cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.clips import Clip
from sparseframes import VideoDecoder
from sparseframes.analysis import PICTURES, amplification

STRIDES = (1, 2, 4, 6, 8, 10, 15, 20, 25, 30)
COUNTS = (1, 2, 3, 5, 8, 10, 15, 20, 25, 30)
PERIODS = (4, 8, 16, 32)
PERIOD, COUNT, STRIDE = 32, 10, 4

Point = tuple[int, int, int]


def points() -> dict[str, list[Point]]:
    """(K, stride, T) of each plot, along its horizontal axis."""
    return {
        "stride": [(COUNT, stride, PERIOD) for stride in STRIDES],
        "count": [(count, STRIDE, PERIOD) for count in COUNTS],
        "period": [(COUNT, STRIDE, period) for period in PERIODS],
    }


def analytic() -> dict[str, dict[str, list[float]]]:
    """The model's values, by plot and method."""
    return {
        plot: {
            method: [float(amplification(method, *point)) for point in along]  # type: ignore[arg-type]
            for method in PICTURES
        }
        for plot, along in points().items()
    }


def mean_cost(path: Path, count: int, stride: int, limit: int = 64) -> dict[str, float] | None:
    """Means over start positions in a real file; None where a request doesn't fit in."""
    with VideoDecoder(path) as decoder:
        room = len(decoder) - (count - 1) * stride
        if room < 1:
            return None
        starts = np.unique(np.linspace(0, room - 1, min(room, limit)).astype(int)).tolist()
        sparse, linear = 0, 0
        for start in starts:
            plan = decoder.plan(range(start, start + count * stride, stride))
            sparse += len(plan.reconstruct)
            linear += plan.linear_count
    return {
        "sparse": sparse / count / len(starts),
        "sequential": linear / count / len(starts),
    }


def measured(clips: list[Clip]) -> dict[str, list[dict[str, Any]]]:
    """What real files cost, by plot: DDRA files by period, and native ones."""
    found: dict[str, list[dict[str, Any]]] = {}
    ddra = [clip for clip in clips if clip.group == "ddra"]
    native = [clip for clip in clips if clip.group in ("native-h264", "native-hevc")]
    for plot, along in points().items():
        for count, stride, period in along:
            for clip in ddra + (native if plot != "period" else []):
                if clip.group == "ddra" and clip.facts["period"] != period:
                    continue
                if clip.group == "ddra" and clip.facts["profile"] != "balanced":
                    continue
                cost = mean_cost(clip.path, count, stride)
                if cost is None:
                    continue
                found.setdefault(plot, []).append(
                    {
                        "clip": clip.name,
                        "group": clip.group,
                        "count": count,
                        "stride": stride,
                        "period": clip.facts.get("period"),
                        **cost,
                    }
                )
    return found
