"""``sparseframes validate``: random requests against linear decodes."""

from __future__ import annotations

import dataclasses
import glob
import multiprocessing
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from sparseframes.cli._common import Bar, Failure, console, json_option, need, print_json

if TYPE_CHECKING:
    from sparseframes.validation import FileResult

# files of a folder that are taken for video
# fmt: off
SUFFIXES = frozenset((
    ".264", ".265", ".26l", ".3g2", ".3gp", ".avc", ".avi", ".bin", ".bit", ".flv", ".h264",
    ".h265", ".hevc", ".hvc", ".ivf", ".jsv", ".jvt", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4",
    ".mpeg", ".mpg", ".mts", ".obu", ".ts", ".webm",
))
# fmt: on


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option("--requests", default=200, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=0, show_default=True, type=int)
@click.option("--frames-per-request", default=8, show_default=True, type=click.IntRange(1))
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Processes.")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1, 64))
@json_option
def validate(
    paths: tuple[str, ...],
    requests: int,
    seed: int,
    frames_per_request: int,
    jobs: int,
    threads: int,
    as_json: bool,
) -> int:
    """Hold random requests against linear decodes.

    PATHS are files, folders and patterns. Native planes are compared with the FFmpeg of PyAV, RGB
    with this library's own linear decode.

    The exit status is 1 when anything differs; 2 when a file that was named can't be read or is
    refused, or a folder holds none that can.
    """
    need("av", "av", "validate")
    named, found = expand(paths)
    options = {
        "requests": requests,
        "seed": seed,
        "frames_per_request": frames_per_request,
        "threads": threads,
    }
    results: list[FileResult] = []
    files = list(dict.fromkeys([*named, *found]))
    with Bar("validating", hidden=as_json) as bar:
        for result in run(files, options, jobs, bar):
            results.append(result)
            if result.status not in ("exact", "unreadable", "refused") and not as_json:
                console().print(f"{result.file}: {result.reason}", markup=False, soft_wrap=True)
    results.sort(key=lambda result: files.index(result.file))
    if as_json:
        print_json(report(results))
    else:
        _print(results)
    if any(result.status in ("mismatch", "failed") for result in results):
        return 1
    bad = {result.file: result for result in results if result.status != "exact"}
    for name in named:
        if name in bad:
            raise Failure(bad[name].reason or f"{name}: {bad[name].status}", 2)
    return 0 if len(bad) < len(results) else 2


def expand(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Files that were named, and those found in folders and by patterns."""
    named: list[str] = []
    found: list[str] = []
    for path in paths:
        if Path(path).is_dir():
            inside = (p for p in Path(path).rglob("*") if p.suffix.lower() in SUFFIXES)
            members = sorted(str(p) for p in inside if p.is_file())
            if not members:
                raise Failure(f"{path}: no video files in this folder", 2)
            found += members
        elif Path(path).exists():
            named.append(path)
        else:
            # Path.glob takes no absolute patterns
            matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207
            matches = [match for match in matches if Path(match).is_file()]
            if not matches:
                raise Failure(f"{path}: no such file", 2)
            found += matches
    return named, found


def run(files: Sequence[str], options: dict[str, Any], jobs: int, bar: Bar) -> Iterator[FileResult]:
    """Results as they come; a process that dies costs its own file only."""
    from sparseframes.validation import FileResult
    from sparseframes.validation import validate as validate_file

    if jobs == 1:
        for k, file in enumerate(files):

            def progress(share: float, done: int = k, file: str = file) -> None:
                bar((done + share) / len(files), Path(file).name)

            yield validate_file(file, progress=progress, **options)
            progress(1.0)
        return
    done = 0
    lost: list[str] = []
    with _pool(jobs) as pool:
        waiting = {pool.submit(validate_file, file, **options): file for file in files}
        for future in as_completed(waiting):
            try:
                yield future.result()
            except BrokenProcessPool:
                lost.append(waiting[future])
                continue
            done += 1
            bar(done / len(files))
    for file in lost:
        with _pool(1) as pool:
            try:
                yield pool.submit(validate_file, file, **options).result()
            except BrokenProcessPool:
                yield FileResult(file, status="failed", reason="the process died")
        done += 1
        bar(done / len(files))


def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))


def report(results: Sequence[FileResult]) -> dict[str, Any]:
    """All results and their sums as plain values."""
    return {
        "files": [dataclasses.asdict(result) for result in results],
        "summary": {
            **dict(Counter(result.status for result in results)),
            "requests": sum(result.requests for result in results),
            "frames_checked": sum(result.checked for result in results),
            "mismatches": sum(len(result.mismatches) for result in results),
            "pictures_reconstructed": sum(result.reconstructed for result in results),
            "pictures_planned": sum(result.planned for result in results),
        },
    }


def _print(results: Sequence[FileResult]) -> None:
    out = console()
    table = Table("file", "frames", "requests", "compared", "pictures/plan", "damage", "result")
    for result in results:
        damage = "" if result.damaged_from is None else f"from {result.damaged_from}"
        if result.raised:
            damage += f", raised {result.raised}"
        table.add_row(
            Path(result.file).name,
            str(result.frames),
            str(result.requests),
            str(result.checked),
            f"{result.reconstructed}/{result.planned}",
            damage,
            result.status,
        )
    out.print(table)
    for result in results:
        for mismatch in result.mismatches:
            out.print(
                f"{mismatch.file}: {mismatch.kind}, frame {mismatch.index}: {mismatch.detail}; "
                f"request {mismatch.number} {list(mismatch.request)}, closure "
                f"{list(mismatch.closure)}\n  {mismatch.command}",
                markup=False,
                soft_wrap=True,
            )
        if result.status in ("refused", "unreadable"):
            out.print(f"{result.status}: {result.reason}", markup=False, soft_wrap=True)
    summary = report(results)["summary"]
    counts = ", ".join(
        f"{summary[key]} {key}"
        for key in ("exact", "mismatch", "failed", "refused", "unreadable")
        if key in summary
    )
    out.print(
        f"{len(results)} files: {counts}; {summary['requests']} requests, "
        f"{summary['frames_checked']} frames compared, {summary['mismatches']} mismatches"
    )
