"""``sparseframes demo``: random frames, next to the two usual ways of getting them."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.table import Table

from sparseframes import VideoDecoder, set_cache_budget
from sparseframes.cli import _clips
from sparseframes.cli._common import Bar, console, json_option, need, print_json
from sparseframes.cli._rivals import Linear, Seek


@click.command()
@click.argument("files", nargs=-1)
@click.option("--requests", default=20, show_default=True, type=click.IntRange(1))
@click.option("--frames-per-request", default=4, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=0, show_default=True, type=int)
@click.option(
    "--work-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the clips are made and kept; else in the user's cache.",
)
@json_option
def demo(
    files: tuple[str, ...],
    requests: int,
    frames_per_request: int,
    seed: int,
    work_dir: Path | None,
    as_json: bool,
) -> int:
    """Get random frames of FILES, or of clips made for it, and compare the costs.

    The exit status is 1 when any pixel differs from the linear decode.
    """
    need("av", "av", "the demonstration")
    with Bar("making a clip", hidden=as_json) as bar:
        paths = list(files)
        if not paths:
            folder = work_dir or _cache()
            for clip in _clips.CLIPS:
                paths.append(str(_clips.make(clip, folder, partial(bar, title=clip.name))))
    rows = []
    with Bar("decoding", hidden=as_json) as bar:
        for k, path in enumerate(paths):

            def progress(share: float, done: int = k, path: str = path) -> None:
                bar((done + share) / len(paths), Path(path).name)

            rows.append(measure(path, requests, frames_per_request, seed, progress))
    if as_json:
        print_json(rows)
    else:
        _print(rows, requests, frames_per_request)
    return 0 if all(row["equal"] for row in rows) else 1


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "sparseframes" / "demo"


def measure(
    path: str, requests: int, size: int, seed: int, progress: Callable[[float], Any]
) -> dict[str, Any]:
    """Time the same random requests three ways, one thread each, and compare the pixels."""
    set_cache_budget(0)  # the rivals keep nothing from one request to the next
    with VideoDecoder(path) as decoder:
        count = len(decoder)
        rng = random.Random(seed)
        asked = [rng.sample(range(count), min(size, count)) for _ in range(requests)]
        begun = time.perf_counter()
        decoder.build_index()
        index_ms = 1000 * (time.perf_counter() - begun)
        with decoder._use() as reader:
            pts = decoder._frame_table(reader)["pts"].tolist()
        seek = Seek(path, pts, decoder.key_frame_indices)
        linear = Linear(path)
        seconds = dict.fromkeys(("sparse", "linear", "seek"), 0.0)
        decoder.reset_stats()
        missed = 0
        for k, indices in enumerate(asked):
            begun = time.perf_counter()
            decoder.get_frames_at(indices)
            seconds["sparse"] += time.perf_counter() - begun
            begun = time.perf_counter()
            linear.get(indices)
            seconds["linear"] += time.perf_counter() - begun
            begun = time.perf_counter()
            missed += len(set(indices)) - len(seek.get(indices))
            seconds["seek"] += time.perf_counter() - begun
            progress(0.9 * (k + 1) / requests)
        seek.close()
        stats = decoder.stats
        equal = _equal(path, decoder, asked)
        progress(1.0)
    ms = {way: 1000 * value / requests for way, value in seconds.items()}
    return {
        "file": path,
        "frames": count,
        "requests": requests,
        "frames_asked": sum(map(len, asked)),
        "pictures_reconstructed": stats.pictures_reconstructed,
        "index_ms": index_ms,
        "sparse_ms": ms["sparse"],
        "linear_ms": ms["linear"],
        "seek_ms": ms["seek"],
        "speedup_linear": ms["linear"] / ms["sparse"],
        "speedup_seek": ms["seek"] / ms["sparse"],
        "missed_by_seek": missed,
        "equal": equal,
    }


def _equal(path: str, decoder: VideoDecoder, asked: list[list[int]]) -> bool:
    """Whether all frames asked for are those of linear decodes: native planes and RGB."""
    from sparseframes.validation.reference import digest, own_reference, pyav_reference

    with decoder._use() as reader:
        rgb = own_reference(reader, "rgb24", decoder._orientation).digests
    planes = pyav_reference(path).digests
    with VideoDecoder(path, pixel_format="native") as native:
        for indices in asked:
            for index in indices:
                if digest([np.asarray(decoder[index])]) != rgb[index]:
                    return False
                if digest(list(native[index])) != planes[index]:
                    return False
    return True


def _print(rows: list[dict[str, Any]], requests: int, size: int) -> None:
    table = Table(
        title=f"{requests} requests of {size} random frames each, one thread", title_justify="left"
    )
    table.add_column("file")
    for name in ("frames", "asked", "pictures\nreconstructed"):
        table.add_column(name, justify="right")
    for name in ("sparse\nms/request", "linear decode\nms/request", "PyAV seek\nms/request"):
        table.add_column(name, justify="right")
    table.add_column("pixels\nequal")
    for row in rows:
        table.add_row(
            Path(row["file"]).name,
            str(row["frames"]),
            str(row["frames_asked"]),
            str(row["pictures_reconstructed"]),
            f"{row['sparse_ms']:.1f}",
            f"{row['linear_ms']:.1f} ({row['speedup_linear']:.1f}x)",
            f"{row['seek_ms']:.1f} ({row['speedup_seek']:.1f}x)",
            "yes" if row["equal"] else "NO",
        )
    console().print(table)
