"""The table and the plot of what bench.rate_distortion has measured."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from bench.rate_distortion import LEROBOT, enclosing, size_at

ORDER = (
    *("hevc-compact", "hevc-balanced", "hevc-fast", "hevc-paper"),
    *("h264-compact", "h264-balanced", "h264-fast", "h264-paper", LEROBOT, "jpeg"),
)
LABELS = {
    LEROBOT: "LeRobot v3: SVT-AV1, g 2, crf 30, preset 12",
    "hevc-paper": "paper's x265: medium, keyint 32, bframes 31",
    "h264-paper": "paper's x264: medium, keyint 32, bframes 31",
    "jpeg": "JPEG",
}
BASES = {"hevc": "hevc-paper", "h264": "h264-paper"}


def label(setting: str) -> str:
    """A setting's name in words."""
    if setting in LABELS:
        return LABELS[setting]
    codec, profile, *period = setting.split("-")
    name = f"{'HEVC' if codec == 'hevc' else 'H.264'} `{profile}`"
    return name + (f", period {period[0]}" if period else "")


def sizes(data: dict[str, Any], setting: str) -> dict[str, float]:
    """For each clip that has it, the size at LeRobot's PSNR in shares of LeRobot's."""
    found = {}
    for name, clip in data["clips"].items():
        if setting == LEROBOT and "size" in clip:
            found[name] = 1.0
        elif setting in clip["settings"]:
            size = size_at(clip["settings"][setting]["points"], clip["psnr"])
            if size is not None:
                found[name] = size / clip["size"]
    return found


def times(data: dict[str, Any], setting: str) -> dict[str, float]:
    """For each clip that has it, the milliseconds for a random frame."""
    return {
        name: clip["decode_ms"][setting]
        for name, clip in data["clips"].items()
        if setting in clip.get("decode_ms", {})
    }


def relative(values: dict[str, float], base: dict[str, float]) -> float | None:
    """The mean over the clips that have both."""
    common = [values[name] / base[name] for name in values if name in base]
    return statistics.mean(common) if common else None


def text(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def settings_of(data: dict[str, Any]) -> list[str]:
    """All settings, those of other periods last."""
    found = {setting for clip in data["clips"].values() for setting in clip["settings"]}
    extra = sorted(found - set(ORDER), key=lambda each: (each.split("-")[:2], len(each), each))
    return [each for each in ORDER if each in found or each == LEROBOT] + extra


def tables(data: dict[str, Any]) -> str:
    """The results in Markdown."""
    lines = [
        "# Rate and distortion",
        "",
        f"Written by `bench/rate_distortion.py` from rate_distortion.json: the first "
        f"{data['frames']} frames of {len(data['clips'])} clips of robots, "
        "sizes interpolated at the RGB PSNR of LeRobot v3's default, CPU time for a random frame "
        "by sparseframes. All are means over clips; where a setting was not measured on all of "
        "them, the ratios are over those that have both.",
        "",
        "| setting | clips | size, LeRobot's = 1 | size, the paper's = 1 | timed clips "
        "| ms a random frame | time, the paper's = 1 |",
        "|---|---|---|---|---|---|---|",
    ]
    for setting in settings_of(data):
        if setting not in ORDER:
            continue
        own, spent = sizes(data, setting), times(data, setting)
        base = BASES.get(setting.partition("-")[0])
        paper = relative(own, sizes(data, base)) if base else None
        slower = relative(spent, times(data, base)) if base else None
        milliseconds = statistics.mean(spent.values()) if spent else None
        mean = statistics.mean(own.values()) if own else None
        lines.append(
            f"| {label(setting)} | {len(own)} | {text(mean)} | {text(paper)} "
            f"| {len(spent)} | {text(milliseconds, 2)} | {text(slower, 2)} |"
        )
    others = [setting for setting in settings_of(data) if setting not in ORDER]
    if others:
        lines += ["", "Other periods, against 32:", ""]
        lines += ["| setting | clips | size, the period 32's = 1 | time, the period 32's = 1 |"]
        lines += ["|---|---|---|---|"]
        for setting in others:
            base = "-".join(setting.split("-")[:2])
            own, spent = sizes(data, setting), times(data, setting)
            lines.append(
                f"| {label(setting)} | {len(own)} | {text(relative(own, sizes(data, base)))} "
                f"| {text(relative(spent, times(data, base)), 2)} |"
            )
    shown = [setting for setting in settings_of(data) if setting in ORDER and setting != LEROBOT]
    lines += ["", "## Clip by clip", "", "Size, LeRobot's = 1.", ""]
    lines += ["| clip | PSNR, dB | LeRobot's kB | " + " | ".join(shown) + " |"]
    lines += ["|---" * (len(shown) + 3) + "|"]
    all_sizes = {setting: sizes(data, setting) for setting in shown}
    for name, clip in sorted(data["clips"].items()):
        if "psnr" not in clip:
            continue
        row = " | ".join(text(all_sizes[setting].get(name)) for setting in shown)
        lines.append(f"| {name} | {clip['psnr']:.2f} | {clip['size'] / 1e3:.1f} | {row} |")
    outside = [
        f"{name} {setting}"
        for name, clip in sorted(data["clips"].items())
        for setting, entry in sorted(clip["settings"].items())
        if enclosing(entry["points"], clip["psnr"]) is None
    ]
    if outside:
        lines += ["", f"No quality on both sides of that PSNR: {', '.join(outside)}."]
    return "\n".join(lines) + "\n"


def plot(data: dict[str, Any], path: Path) -> None:
    """Size against decode time, clips as dots and means as marks."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "sparseframes"  # the same file from the same figures
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5.5))
    base = times(data, "hevc-paper")
    for k, setting in enumerate(each for each in settings_of(data) if each in ORDER):
        own, spent = sizes(data, setting), times(data, setting)
        common = [name for name in own if name in spent and name in base]
        if not common:
            continue
        x = [own[name] for name in common]
        y = [spent[name] / base[name] for name in common]
        color = f"C{k}"
        axes.scatter(x, y, s=9, color=color, alpha=0.35, linewidths=0)
        axes.scatter(
            [statistics.mean(x)],
            [statistics.mean(y)],
            s=80,
            color=color,
            edgecolor="black",
            label=label(setting).replace("`", ""),
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("size at equal RGB PSNR, LeRobot v3's default = 1")
    axes.set_ylabel("CPU time for a random frame, the paper's x265 = 1")
    axes.grid(visible=True, which="both", alpha=0.25)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def write(data: dict[str, Any], folder: Path) -> None:
    """Write rate_distortion.md and rate_distortion.svg."""
    (folder / "rate_distortion.md").write_text(tables(data))
    plot(data, folder / "rate_distortion.svg")
