"""python -m bench [FILES]: what requests cost, as a table and as JSON."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

import sparseframes
from bench import request_cost
from bench.request_cost import PATTERNS

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
DEFAULT = [
    "sim/native/aloha_ep00_top.mp4",
    "sim/native/aloha_ep01_right_wrist.mp4",
    "sim/native/robosuite_ep00_agentview.mp4",
    "realworld/mediabunny_video-h265.mp4",
]
# what the project promises, see docs/benchmarks.md
MAX_REQUEST_RATIO = 1.15
MIN_HEADER_RATIO = 100
FLAT_MIB = 8


def _clips() -> list[Path]:
    found = [CORPUS / name for name in DEFAULT if (CORPUS / name).exists()]
    if found:
        return found
    from sparseframes.cli import _clips

    folder = Path(os.environ.get("TMPDIR", "/tmp")) / "sparseframes-bench"
    return [_clips.make(clip, folder, lambda share: None) for clip in _clips.CLIPS]


@click.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--requests", default=24, show_default=True, help="Requests a pattern.")
@click.option("--memory-requests", default=10_000, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Write the figures as JSON here.")
def main(
    files: tuple[Path, ...], requests: int, memory_requests: int, seed: int, output: Path | None
) -> None:
    """Compare requests with a linear decode of the same files, on one thread."""
    console = Console()
    paths = list(files) or _clips()
    costs = [request_cost.measure(path, requests, seed) for path in track(paths, "requests")]
    reads = [
        request_cost.measure_bytes(path, index, seed)
        for path in track(paths, "bytes")
        for index in ("whole", "lazy")
    ]
    smallest = min(paths, key=lambda path: path.stat().st_size)
    memory = request_cost.measure_memory(smallest, memory_requests, seed)

    table = Table(title="CPU time a request of native planes; ratio to pictures x linear + copying")
    for heading in ("file", "linear ms", "header us", "decode : header"):
        table.add_column(heading, justify="right")
    for name in PATTERNS:
        table.add_column(f"{name}\nms / pictures / ratio", justify="right")
    for cost in costs:
        table.add_row(
            f"{cost.file}\n{cost.codec} {cost.size}",
            f"{cost.linear_ms:.3f}",
            f"{cost.header_us:.2f}",
            f"{cost.header_ratio:.0f}",
            *(
                f"{r['ms']:.2f} / {r['pictures']:.1f} / {r['ratio']:.3f}"
                for r in cost.requests.values()
            ),
        )
    console.print(table)

    table = Table(title="bytes read for one random frame of an unindexed file")
    for heading in ("file", "index", "bytes", "open", "header pass", "closure"):
        table.add_column(heading, justify="right")
    for read in reads:
        table.add_row(
            read.file,
            read.index,
            *(
                f"{value:,}"
                for value in (
                    read.file_bytes,
                    read.open_bytes,
                    read.header_pass_bytes,
                    read.closure_bytes,
                )
            ),
        )
    console.print(table)
    console.print(
        f"resident memory, {smallest.name}: {memory['after_tenth_mib']:.1f} MiB after a tenth of "
        f"{memory['requests']} requests, {memory['after_all_mib']:.1f} MiB after all"
    )

    ratios = {name: [cost.requests[name]["ratio"] for cost in costs] for name in PATTERNS}
    sparse = [ratio for name in PATTERNS if name != "all" for ratio in ratios[name]]
    header = min(
        (cost.header_ratio for cost in costs if cost.pixels >= 640 * 480), default=float("nan")
    )
    growth = memory["after_all_mib"] - memory["after_tenth_mib"]
    bars = {
        "request time, worst median": (max(sparse), MAX_REQUEST_RATIO, max(sparse) <= 1.15),
        "the same, all pictures": (max(ratios["all"]), 1.15, max(ratios["all"]) <= 1.15),
        "decode time : header pass, 640x480 and larger, lowest": (
            header,
            MIN_HEADER_RATIO,
            header >= MIN_HEADER_RATIO,
        ),
        "growth of resident memory, MiB": (growth, FLAT_MIB, growth <= FLAT_MIB),
    }
    for name, (value, goal, met) in bars.items():
        console.print(f"{name}: {value:.3f} (goal {goal}) {'met' if met else '[red]missed[/red]'}")

    if output:
        result = {
            "version": sparseframes.__version__,
            "machine": platform.machine(),
            "python": platform.python_version(),
            "costs": [request_cost.as_dict(cost) for cost in costs],
            "bytes": [request_cost.as_dict(read) for read in reads],
            "memory": memory,
            "bars": {
                name: {"value": value, "goal": goal, "met": met}
                for name, (value, goal, met) in bars.items()
            },
        }
        temporary = output.with_suffix(output.suffix + ".tmp")
        temporary.write_text(json.dumps(result, indent=2) + "\n")
        temporary.replace(output)


if __name__ == "__main__":
    main()
