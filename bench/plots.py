"""The plots: amplification, and throughput against payload."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

METHODS = {"sequential": "tab:gray", "sparse": "tab:blue", "ddra": "tab:orange"}
AXES = {
    "stride": (1, "stride (K = 10, T = 32)"),
    "count": (0, "K, frames a request (stride 4, T = 32)"),
    "period": (2, "T, frames a period (K = 10, stride 4)"),
}
# what each kind of file is read by, for the throughput
READERS = {
    "lerobot": ("torchcodec approximate", "sparseframes", "pyav"),
    "ddra": ("sparseframes",),
    "jpeg": ("jpeg",),
    "av1-long": ("torchcodec approximate", "sparseframes"),
}


def draw(result: dict[str, Any], folder: Path) -> None:
    """Write amplification.svg and throughput.svg."""
    import matplotlib as mpl  # of the extra "bench"

    mpl.use("svg")
    # the same figures give the same file
    mpl.rcParams["svg.hashsalt"] = "sparseframes"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13, 4))
    for axis, (plot, (place, label)) in zip(axes, AXES.items(), strict=True):
        along = [point[place] for point in result["points"][plot]]
        for method, values in result["analytic"][plot].items():
            axis.plot(along, values, color=METHODS[method], label=f"{method}, analytic")
        _measured(axis, result["own"].get("measured", {}).get(plot, []), plot)
        axis.set_xlabel(label)
        axis.set_yscale("log")
        axis.set_ylim(bottom=0.9)
        axis.grid(visible=True, which="both", alpha=0.2)
    axes[0].set_ylabel("pictures reconstructed for each frame")
    axes[0].legend(fontsize="x-small")
    _save(figure, folder / "amplification.svg")

    figure, axis = plt.subplots(figsize=(8, 5))
    for clip in result["clips"]:
        for arm in READERS.get(clip["group"], ()):
            rate = result["costs"].get(clip["name"], {}).get(arm)
            if not rate:
                continue
            payload = clip["bytes"] / clip["frames"]
            ours = arm.startswith("sparseframes")
            axis.scatter(payload, rate, color="tab:orange" if ours else "tab:gray", s=18)
            name = clip["name"].removeprefix(f"{clip['master']}_")
            axis.annotate(f"{name}\n{arm}", (payload, rate), fontsize=5, xytext=(3, 2),
                          textcoords="offset points")  # fmt: skip
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("bytes a frame")
    axis.set_ylabel("frames a CPU second, mean of four patterns, cold")
    axis.grid(visible=True, which="both", alpha=0.2)
    _save(figure, folder / "throughput.svg")
    plt.close("all")


def _measured(axis: Any, points: list[dict[str, Any]], plot: str) -> None:
    """Means over the clips of each kind."""
    kinds = {
        "ddra": ("sparse", "o", "tab:orange", "DDRA files"),
        "native-h264": ("sparse", "^", "tab:blue", "H.264, GOP 250"),
        "native-hevc": ("sparse", "v", "tab:cyan", "HEVC, GOP 250"),
    }
    for group, (what, marker, colour, label) in kinds.items():
        by_place: dict[int, list[float]] = {}
        for point in points:
            if point["group"] == group:
                by_place.setdefault(point[plot], []).append(point[what])
        if by_place:
            along = sorted(by_place)
            means = [statistics.fmean(by_place[place]) for place in along]
            axis.plot(along, means, marker, color=colour, markersize=4, label=f"{label}, measured")


def _save(figure: Any, path: Path) -> None:
    part = path.with_name(f".{path.name}")
    figure.tight_layout()
    figure.savefig(part, format="svg", metadata={"Date": None, "Creator": None})
    part.replace(path)
