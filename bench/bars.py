"""What the project aims at, and what was measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.clips import Clip
from bench.patterns import FOUR
from bench.ratios import Ratio, Table, combine, fastest
from bench.run import LEROBOT, PEERS, SHORT_PERIOD

MS = 1e3
COLD, SAVED, WARM = (
    "sparseframes",
    "sparseframes saved",
    "sparseframes warm",
)
TORCHCODEC = ("torchcodec exact", "torchcodec approximate")
# the older decord is no rival of the newer one
RIVALS = tuple(peer for peer in PEERS if peer != "decord")
NATIVE_GOALS = {
    "window": 1.4,
    "stride 30": 1.6,
    "single": 1.7,
    "stride 4": 1.2,
    "contiguous": 1.1,
    "whole": 0.95,
}
# a clip is of GOP 250 when its key frames are as far apart, or there is only one
LONG_GOP = 240


@dataclass(frozen=True)
class Bar:
    """One goal. A value of None could not be measured, for the reason in note."""

    name: str
    value: float | None
    goal: float
    at_most: bool = False
    interval: tuple[float, float] | None = None
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the value is as good as the goal."""
        if self.value is None or math.isnan(self.value):
            return False
        return bool(self.value <= self.goal if self.at_most else self.value >= self.goal)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        facts: dict[str, Any] = {
            "value": self.value,
            "goal": self.goal,
            "sense": "at most" if self.at_most else "at least",
            "met": self.met,
        }
        if self.interval:
            facts["interval"] = list(self.interval)
        if self.note:
            facts["note"] = self.note
        return facts


class Bars:
    """All bars from the figures of a run.

    Args:
        clips: the clips.
        table: the records of the comparison.
        own: figures of `bench.own` and of `bench.request_cost`, by name.
    """

    def __init__(self, clips: list[Clip], table: Table, own: dict[str, dict[str, Any]]) -> None:
        self.clips = clips
        self.table = table
        self.own = own

    def all(self) -> list[Bar]:
        """The bars, in the order of the issue that set them."""
        return [
            *self._native(),
            *self._ddra(),
            *self._layouts(),
            *self._overheads(),
            *self._own(),
            *self._av1(),
        ]

    # -- against others ---------------------------------------------------------------------

    def group(self, *names: str) -> list[Clip]:
        """Clips of groups."""
        return [clip for clip in self.clips if clip.group in names]

    def against(
        self, clips: Iterable[Clip], pattern: str, ours: str, others: Sequence[str]
    ) -> Ratio | None:
        """How many times quicker than the quickest of the others that returns no wrong frame."""
        pairs = []
        for clip in clips:
            of_clip = []
            for other in others:
                pair = self.table.pair(clip.name, pattern, ours, other)
                if pair is not None and not self.table.wrong(clip.name, other):
                    of_clip.append(pair)
            pairs.append(of_clip)
        return fastest(pairs)

    def _ratio_bar(self, name: str, found: Ratio | None, goal: float, note: str = "") -> Bar:
        if found is None:
            return Bar(name, None, goal, note="nothing to compare with in this run")
        return Bar(name, found.value, goal, interval=(found.low, found.high), note=note)

    def _native(self) -> list[Bar]:
        bars = []
        for group, codec in (("native-h264", "H.264"), ("native-hevc", "HEVC")):
            clips = [
                clip
                for clip in self.group(group)
                if clip.facts["longest_gop"] >= min(LONG_GOP, clip.frames)
            ]
            for pattern, goal in NATIVE_GOALS.items():
                found = self.against(clips, pattern, COLD, RIVALS)
                name = f"native {codec}, {pattern}: fastest peer / cold"
                bars.append(self._ratio_bar(name, found, goal, f"{len(clips)} clips"))
        return bars

    def _ddra(self) -> list[Bar]:
        def of(group: str) -> list[Clip]:
            return [
                clip
                for clip in self.group(group)
                if clip.facts["period"] == SHORT_PERIOD and clip.size in ("640x480", "96x64")
            ]

        bars = []
        for codec in ("h264", "hevc"):
            # one IDR picture, as such files are by default: others decode from the start; and one
            # each period, which costs size and is there for others to seek to
            for group, profile, kind in (
                ("ddra", "balanced", "the same file"),
                ("ddra-fast", "fast", "the same file"),
                ("ddra-idr", "balanced", "IDR each period"),
            ):
                mine = [clip for clip in of(group) if clip.facts["codec"] == codec]
                if mine or group == "ddra":
                    bars += self._short_period(mine, f"{codec} {profile}", kind)
        return bars

    def _short_period(self, clips: list[Clip], what: str, kind: str) -> list[Bar]:
        times = [
            statistics.median(values) * MS
            for clip in clips
            if len(values := self.table.values(clip.name, "single", COLD))
        ]
        bars = [
            Bar(
                f"DDRA T=8 {what}, one frame, cold, CPU ms, {kind}",
                max(times, default=None),
                2.6,
                at_most=True,
                note="" if times else "no such clip in this run",
            )
        ]
        for pattern, goal in (("single", 4.0), ("window", 2.2)):
            found = self.against(clips, pattern, COLD, TORCHCODEC)
            name = f"DDRA T=8 {what}, {pattern}: torchcodec / cold, {kind}"
            bars.append(self._ratio_bar(name, found, goal))
        return bars

    def layout_ratio(self, profile: str, codec: str) -> Ratio | None:
        """LeRobot's layout by torchcodec approximate / DDRA T = 32 cold: mean of four patterns."""
        parts: list[Ratio | None] = []
        for lerobot in self.group("lerobot"):
            for pattern in FOUR:
                pairs = []
                for clip in self.group("ddra"):
                    facts = clip.facts
                    same = clip.master == lerobot.master and facts["period"] == 32
                    if same and (facts["profile"], facts["codec"]) == (profile, codec):
                        pair = self.layout_pair(clip.name, lerobot.name, pattern)
                        if pair is not None:
                            pairs.append([pair])
                parts.append(fastest(pairs))
        return combine(parts) if parts else None

    def layout_pair(self, ddra: str, lerobot: str, pattern: str) -> Any:
        """The times of two files, of as many requests."""
        first = self.table.values(ddra, pattern, COLD)
        second = self.table.values(lerobot, pattern, "torchcodec approximate")
        count = min(len(first), len(second))
        if not count:
            return None
        import numpy as np

        return np.array([first[:count], second[:count]])

    def _layouts(self) -> list[Bar]:
        found = {
            (codec, profile): self.layout_ratio(profile, codec)
            for codec in ("hevc", "h264")
            for profile in ("balanced", "fast")
        }
        known = {key: value for key, value in found.items() if value is not None}
        hevc = {key: value for key, value in known.items() if key[0] == "hevc"}
        bars = []
        for name, among, goal in (("best profile", known, 1.6), ("HEVC", hevc, 1.4)):
            best = max(among, key=lambda key: among[key].value, default=None)
            bars.append(
                self._ratio_bar(
                    f"DDRA T=32 cold against LeRobot's AV1 by torchcodec, {name}",
                    among[best] if best else None,
                    goal,
                    f"{best[0]} {best[1]}" if best else "",
                )
            )
        return bars

    # -- of this project alone --------------------------------------------------------------

    def _overheads(self) -> list[Bar]:
        figures = self.own.get("warm", {"error": "not measured"})
        note = figures.get("error", "")
        if not note:
            note = f"{figures['where']}; median of all {figures['median']:.3f}"
        bars = [
            Bar(
                "warm request / (its pictures' own linear decode + conversion), worst",
                figures.get("worst"),
                1.08,
                at_most=True,
                note=note,
            )
        ]
        shares = []
        for clip in self.group("native-h264", "native-hevc"):
            cold, warm = (self.table.values(clip.name, "window", arm) for arm in (COLD, WARM))
            if len(cold) and len(warm):
                allowed = 1.1 * statistics.median(warm) + clip.frames / MS / MS
                shares.append((statistics.median(cold) / allowed, clip.name))
        worst_share = max(shares, default=None)
        bars.append(
            Bar(
                "cold request / (1.1 x warm + 1 ms a thousand samples), worst",
                worst_share[0] if worst_share else None,
                1.0,
                at_most=True,
                note=worst_share[1] if worst_share else "not measured",
            )
        )
        return bars

    def _own(self) -> list[Bar]:
        return [
            self._own_bar("kept pictures: first epoch / second", "epochs", "ratio", 1.5),
            self._own_bar("decode_batch, wall time: 1 thread / 2", "threads", "ratio", 1.8),
            self._own_bar("100 open readers, resident MiB", "readers", "mib", 300, at_most=True),
            self._own_bar("saved index, bytes a picture", "saved", "mean", 48, at_most=True),
        ]

    def _own_bar(
        self, name: str, measurement: str, what: str, goal: float, at_most: bool = False
    ) -> Bar:
        figures = self.own.get(measurement, {"error": "not measured"})
        note = figures.get("error", "")
        if "other" in figures:
            note = f"{figures['other']['ratio']:.3f} with other frames in the second epoch"
        if "load_average" in figures:
            note = f"load average {figures['load_average']:.1f} before"
        return Bar(name, figures.get(what), goal, at_most, note=note)

    def _av1(self) -> list[Bar]:
        long, lerobot = self.group("av1-long"), self.group("lerobot")
        wanted = [
            ("AV1 GOP 120, one frame, cold: torchcodec /", long, "single", COLD, TORCHCODEC, 3.0),
            ("AV1 GOP 120, window, cold: torchcodec /", long, "window", COLD, TORCHCODEC, 1.5),
        ]
        for pattern in ("contiguous", "window"):
            approximate = ("torchcodec approximate",)
            name = f"LeRobot's AV1, {pattern},"
            wanted += [
                (
                    f"{name} cold: torchcodec approximate /",
                    lerobot,
                    pattern,
                    COLD,
                    approximate,
                    1.0,
                ),
                (f"{name} cold: PyAV /", lerobot, pattern, COLD, ("pyav",), 1.4),
                (
                    f"{name} warm: torchcodec approximate /",
                    lerobot,
                    pattern,
                    WARM,
                    approximate,
                    1.15,
                ),
            ]
        bars = [
            self._ratio_bar(name, self.against(clips, pattern, ours, others), goal)
            for name, clips, pattern, ours, others, goal in wanted
        ]
        return [*bars, self._joined()]

    def _joined(self) -> Bar:
        """The first sample of a file of joined episodes, read as LeRobot's users do."""
        clips = self.group("lerobot-joined")
        others = []
        for name, arm in (
            ("VideoDecoder's default, which reads all headers first", COLD),
            ("with a saved index", SAVED),
        ):
            found = self.against(clips, "window", arm, TORCHCODEC)
            if found is not None:
                others.append(f"{name}: {found.value:.2f} ({found.low:.2f} to {found.high:.2f})")
        return self._ratio_bar(
            "40 joined episodes, first sample by sparseframes.lerobot: torchcodec /",
            self.against(clips, "window", LEROBOT, TORCHCODEC),
            1.0,
            "; ".join(others),
        )
