"""python -m bench: this project against the loaders people use; figures, table and plots."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

import sparseframes
from bench import amplification, arms, own, patterns, report, request_cost, worker
from bench.clips import GROUPS, Catalogue, Clip
from bench.patterns import PATTERNS
from bench.peers import CACHE, Peers
from bench.ratios import Table
from bench.run import LEROBOT, OURS, PEERS, WARM_PEERS, Block, Run, plan

# loaders in the DataLoader, and how often each reads all samples
LOADERS = ("sparseframes", "pyav", "torchcodec approximate", "decord2", "opencv")
LOADER_ROUNDS = 2
# clips whose requests are compared with their own linear decode
COSTLY = ("native-h264", "native-hevc")


class Stages:
    """Results of stages in a folder: what an earlier run has finished is not done again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def once(self, name: str, work: Callable[[], Any]) -> Any:
        """The result of a stage, which is done unless it is there."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            write(path, json.dumps(work()))
        return json.loads(path.read_text())


def write(path: Path, content: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(f".{os.getpid()}.{path.name}")
    part.write_text(content)
    part.replace(path)


def fingerprint(*parts: Any) -> str:
    """A short hash of what a run depends on, the installed package and the arms included."""
    digest = hashlib.sha256(repr(parts).encode())
    package = Path(sparseframes.__file__).parent
    used = [Path(module.__file__ or "") for module in (arms, patterns, worker)]
    for file in [*sorted(package.rglob("*")), *used]:
        if file.suffix in (".py", ".so"):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def load_samples(clips: list[Clip], count: int, seed: int) -> list[tuple[str, list[int]]]:
    """What the DataLoader reads: ten frames of a window, from all native clips in turn."""
    rng = np.random.default_rng(seed)
    native = [clip for clip in clips if clip.group.startswith("native")]
    chosen = [native[k % len(native)] for k in range(count)]
    return [(str(clip.path), PATTERNS["window"](rng, clip.frames)) for clip in chosen]


def data_loaders(
    clips: list[Clip], arms: list[str], peers: Peers, count: int, seed: int
) -> dict[str, Any]:
    """Samples a second of each loader in a DataLoader with two workers, in alternating rounds."""
    samples = json.dumps(load_samples(clips, count, seed))
    results: dict[str, Any] = {arm: [] for arm in arms}
    order = np.random.default_rng(seed)
    for _ in range(LOADER_ROUNDS):
        for k in order.permutation(len(arms)):
            command, environment = peers.command(arms[k], "bench.loader")
            result = subprocess.run(
                command, input=samples, env=environment, capture_output=True, text=True
            )
            lines = result.stdout.strip().splitlines() or ['{"error": "no answer"}']
            results[arms[k]].append(json.loads(lines[-1]))
    return {"samples": count, "workers": 2, "load_average": os.getloadavg()[0], "arms": results}


def own_figures(clips: list[Clip], quick: bool, stages: Stages) -> dict[str, Any]:
    """Figures of `bench.own`."""

    def files(*groups: str, size: str | None = None) -> dict[str, Any]:
        found = [c for c in clips if c.group in groups and size in (None, c.size)]
        return {"paths": [str(c.path) for c in found], "frames": [c.frames for c in found]}

    sets = {
        "epochs": (files("ddra"), {"rounds": 1 if quick else 2, "repeats": 1 if quick else 5}),
        "threads": (
            files("native-h264", "native-hevc", "ddra"),
            {"repeats": 1 if quick else 9},
        ),
        "readers": (
            files("native-h264", "native-hevc", size=None if quick else "640x480"),
            {"count": 4 if quick else 100},
        ),
    }
    figures = {}
    for name, (arguments, more) in sets.items():
        if not arguments["paths"]:
            figures[name] = {"error": "no such clips in this run"}
            continue

        def work(name: str = name, arguments: Any = arguments, more: Any = more) -> Any:
            return own.measure(name, **arguments, **more)

        figures[name] = stages.once(name, work)
    groups = ("native-h264", "native-hevc", "ddra", "lerobot", "av1-long")
    paths = [str(clip.path) for clip in clips if clip.group in groups]
    figures["saved"] = stages.once("saved", lambda: own.measure("saved", paths=paths))
    native = files("native-h264", "native-hevc")["paths"]
    figures["warm"] = stages.once("warm", lambda: own.measure("warm", paths=native))
    return figures


def request_figures(clips: list[Clip], quick: bool, seed: int) -> dict[str, Any]:
    """Figures of `bench.request_cost`."""
    chosen = [clip for clip in clips if clip.group in COSTLY]
    paths = [clip.path for clip in chosen]
    costs = [request_cost.measure(path, 2 if quick else 12, seed) for path in paths]
    reads = [
        request_cost.measure_bytes(path, index, seed)
        for path in paths
        for index in ("whole", "lazy")
    ]
    smallest = min(paths, key=lambda path: path.stat().st_size)
    memory = request_cost.measure_memory(smallest, 100 if quick else 3000, seed)
    return {
        "costs": [request_cost.as_dict(cost) for cost in costs],
        "bytes": [request_cost.as_dict(read) for read in reads],
        "memory": memory,
    }


def machine() -> dict[str, Any]:
    """What it ran on."""
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


@click.command()
@click.option("--quick", is_flag=True, help="Tiny clips and few requests, to see that it works.")
@click.option("--requests", "count", default=3, show_default=True, help="Requests a block.")
@click.option("--blocks", default=5, show_default=True, help="Blocks of each clip and pattern.")
@click.option("--minutes", type=float, help="Stop the comparison after so long.")
@click.option("--seed", default=1, show_default=True)
@click.option("--arm", "wanted_arms", multiple=True, help="Only these arms; may be repeated.")
@click.option("--pattern", "wanted", multiple=True, type=click.Choice(list(PATTERNS)))
@click.option("--group", "groups", multiple=True, type=click.Choice(GROUPS))
@click.option("--clip", "names", multiple=True, help="Only clips with this in their names.")
@click.option("--peers/--no-peers", default=True, help="Whether to install other loaders.")
@click.option("--comparison-only", is_flag=True, help="Nothing but the comparison.")
@click.option("--fresh", is_flag=True, help="Do not resume an earlier run of the same version.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=CACHE,
    show_default=True,
    help="Where environments, clips and unfinished runs stay.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("build") / "bench",
    show_default=True,
    help="Folder of bench.json, benchmarks.md and the plots; docs/ for what is published.",
)
def main(
    quick: bool,
    count: int,
    blocks: int,
    minutes: float | None,
    seed: int,
    wanted_arms: tuple[str, ...],
    wanted: tuple[str, ...],
    groups: tuple[str, ...],
    names: tuple[str, ...],
    peers: bool,
    comparison_only: bool,
    fresh: bool,
    folder: Path,
    output: Path,
) -> None:
    """Compare this project with other loaders, on one thread each."""
    console = Console()
    say = console.log
    if quick:
        count, blocks = 2, 1
    environments = Peers(folder / "peers" if peers else None)
    environments.install(say)
    catalogue = Catalogue(folder / ("clips-quick" if quick else "clips"), quick, groups or GROUPS)
    clips = catalogue.all(say)
    if names:
        clips = [clip for clip in clips if any(name in clip.name for name in names)]
    asked = list(wanted_arms) or [*OURS, LEROBOT, *PEERS, *WARM_PEERS, "jpeg"]
    if not peers:
        asked = [arm for arm in asked if arm in (*OURS, LEROBOT, "pyav")]
    asked_patterns = list(wanted) or list(PATTERNS)
    key = fingerprint(
        quick, count, blocks, seed, asked, asked_patterns, [(c.name, c.bytes) for c in clips]
    )
    here = folder / "runs" / key
    if fresh:
        shutil.rmtree(here, ignore_errors=True)
    here.mkdir(parents=True, exist_ok=True)
    stages = Stages(here)
    say(f"records in {here}")

    run = Run(here, environments, folder / "references")
    try:
        missing = run.start(asked)
        for arm, reason in missing.items():
            say(f"without {arm}: {reason}")
        available = [arm for arm in asked if arm not in missing]
        planned = plan(clips, asked_patterns, available, blocks, count, seed)
        load = os.getloadavg()[0]
        _measure(console, run, planned, minutes)
        figures: dict[str, Any] = {
            "peaks": run.peaks(),
            "versions": run.versions(),
            "failed": run.failed,
            "missing": {**missing, **environments.missing, **catalogue.missing},
            "load_average": [load, os.getloadavg()[0]],
        }
    finally:
        run.close()
    owned: dict[str, Any] = {}
    if not comparison_only:
        for name, work in {
            "loaders": lambda: data_loaders(
                clips,
                [arm for arm in LOADERS if arm in available],
                environments,
                24,
                seed,
            ),
            "requests": lambda: request_figures(clips, quick, seed),
            "measured": lambda: amplification.measured(clips),
        }.items():
            if name == "loaders" and (quick or "torchcodec approximate" not in available):
                continue  # each start of torch takes seconds; and without, there is no DataLoader
            say(f"measuring {name}")
            owned[name] = stages.once(name, work)
        say("measuring kept pictures, threads, readers and saved indexes")
        owned.update(own_figures(clips, quick, stages))
    result = report.make(
        clips=clips,
        table=Table(run.records()),
        own=owned,
        facts={
            **figures,
            "version": sparseframes.__version__,
            "ffmpeg": sparseframes.ffmpeg_version(),
            "machine": machine(),
            "settings": {"requests": count, "blocks": blocks, "seed": seed, "quick": quick},
            "date": time.strftime("%Y-%m-%d"),
        },
    )
    output.mkdir(parents=True, exist_ok=True)
    report.save(result, output, write)
    report.show(result, console)
    say(f"written to {output}")


def _measure(console: Console, run: Run, planned: list[Block], minutes: float | None) -> None:
    end = None if minutes is None else time.monotonic() + 60 * minutes
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("blocks", total=len(planned))

        def goes_on(block: Block) -> bool:
            progress.update(task, advance=1, description=f"{block.clip.name}, {block.pattern}")
            return end is None or time.monotonic() < end

        if not run.measure(planned, goes_on):
            console.log("out of time: the rest of the blocks is left out")


if __name__ == "__main__":
    main()
