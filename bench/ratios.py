"""Medians, and ratios of medians with confidence intervals by the bootstrap.

A ratio is that of one arm's median to ours on the same requests of the same clip; over several
clips the geometric mean is taken. The interval comes from drawing the requests of each clip anew,
with the same draw for both arms, since both answered the same requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DRAWS = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Ratio:
    """A ratio with its interval; above 1 means that ours is quicker."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return {"value": self.value, "low": self.low, "high": self.high}


class Table:
    """Figures of all requests by clip, pattern and arm."""

    def __init__(self, records: Iterable[dict[str, Any]]) -> None:
        self.cells: dict[tuple[str, str, str], dict[int, dict[str, Any]]] = {}
        for record in records:
            key = record["clip"], record["pattern"], record["arm"]
            self.cells.setdefault(key, {})[record["request"]] = record

    def values(self, clip: str, pattern: str, arm: str, what: str = "cpu") -> np.ndarray:
        """One figure of all requests of a cell."""
        cell = self.cells.get((clip, pattern, arm), {})
        found = [record[what] for record in cell.values() if record[what] is not None]
        return np.array(found, float)

    def wrong(self, clip: str, arm: str, pattern: str | None = None) -> int:
        """Frames that an arm returned wrongly."""
        return sum(
            record["verdicts"].get("wrong", 0)
            for (c, p, a), cell in self.cells.items()
            if c == clip and a == arm and pattern in (None, p)
            for record in cell.values()
        )

    def pair(self, clip: str, pattern: str, ours: str, other: str) -> np.ndarray | None:
        """CPU seconds [2, N] of both arms on the requests that both have answered."""
        first = self.cells.get((clip, pattern, ours), {})
        second = self.cells.get((clip, pattern, other), {})
        common = sorted(first.keys() & second.keys())
        if not common:
            return None
        return np.array([[cell[k]["cpu"] for k in common] for cell in (first, second)])


def ratio(pairs: Sequence[np.ndarray], seed: int = 0) -> Ratio | None:
    """The geometric mean over clips of second's median / first's, of pairs [2, N]."""
    return fastest([[pair] for pair in pairs], seed)


def fastest(clips: Sequence[Sequence[np.ndarray]], seed: int = 0) -> Ratio | None:
    """The same where each clip has several others, of which the one with the least ratio counts.

    Which is the fastest is decided anew in each draw, so the interval allows for it.
    """
    clips = [pairs for pairs in clips if pairs]
    if not clips:
        return None
    rng = np.random.default_rng(seed)
    total, draws = 0.0, np.zeros(DRAWS)
    for pairs in clips:
        best, best_draws = np.inf, np.full(DRAWS, np.inf)
        for pair in pairs:
            own = np.median(pair, axis=1)
            best = min(best, own[1] / own[0])
            chosen = rng.integers(pair.shape[1], size=(DRAWS, pair.shape[1]))
            medians = np.median(pair[:, chosen], axis=2)
            best_draws = np.minimum(best_draws, medians[1] / medians[0])
        total += np.log(best)
        draws += np.log(best_draws)
    low, high = np.exp(np.quantile(draws / len(clips), [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    return Ratio(float(np.exp(total / len(clips))), float(low), float(high))


def combine(parts: Sequence[Ratio | None]) -> Ratio | None:
    """The geometric mean of ratios; its interval is that of the ends, which is too wide if any."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    value, low, high = (
        float(np.exp(np.mean(np.log([getattr(part, name) for part in known]))))
        for name in ("value", "low", "high")
    )
    return Ratio(value, low, high)
