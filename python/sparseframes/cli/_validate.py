"""``sparseframes validate``: requests of many patterns against linear decodes."""

from __future__ import annotations

import dataclasses
import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from sparseframes.cli._common import Bar, Failure, console, counted, json_option, need, print_json

if TYPE_CHECKING:
    from sparseframes.validation import FileResult, Options

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
@click.option(
    "--preset",
    type=click.Choice(["quick", "full", "paper"]),
    help="Requests to make: two or fifteen of each pattern and file; or 10,000 of ten frames over "
    "all files together. The options below change single settings of it.",
)
@click.option("--requests", type=click.IntRange(1), help="Requests a file.  [default: 200]")
@click.option("--frames-per-request", type=click.IntRange(1), help="At most.  [default: 8]")
@click.option("--exact-size", is_flag=True, help="As many frames in every request.")
@click.option("--seed", type=int, help="Of the requests.  [default: 0]")
@click.option("--patterns", metavar="LIST", help="Some of the patterns, with commas between.")
@click.option(
    "--pixels",
    type=click.Choice(["both", "alternate", "native", "rgb24"]),
    help="Formats to ask for.  [default: both]",
)
@click.option("--threads", type=click.IntRange(1, 64), help="Of the decoder.  [default: 1]")
@click.option("--saved-index", is_flag=True, help="Work with indexes that were saved.")
@click.option("--seconds", type=click.FloatRange(0), help="Spent on a file at most.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Processes.")
@click.option(
    "--resume",
    metavar="FILE",
    help="Keep results in FILE, and go on from those that are there.",
)
@click.option("--junit", metavar="FILE", help="Write a report as JUnit XML.")
@json_option
def validate(
    paths: tuple[str, ...],
    preset: str | None,
    patterns: str | None,
    jobs: int,
    resume: str | None,
    junit: str | None,
    as_json: bool,
    **single: Any,
) -> int:
    """Hold requests against linear decodes.

    PATHS are files, folders and patterns. Native planes are compared with the FFmpeg of PyAV, RGB
    with this library's own linear decode.

    The exit status is 1 when anything differs, else 2 when a file can't be read or is refused.
    """
    need("av", "av", "validate")
    from sparseframes.validation import exit_status
    from sparseframes.validation.report import to_json, to_junit
    from sparseframes.validation.runner import Journal, JournalError, run_files

    named, found = expand(paths)
    files = list(dict.fromkeys([*named, *found]))
    options = choose(preset, patterns, single, len(files))
    results: list[FileResult] = []
    try:
        journal = Journal(resume) if resume else None
        with Bar("validating", hidden=as_json) as bar:
            for result in run_files(files, options, jobs=jobs, journal=journal, progress=bar):
                results.append(result)
                if result.status not in ("exact", "unreadable", "refused") and not as_json:
                    console().print(f"{result.file}: {result.reason}", markup=False, soft_wrap=True)
    except JournalError as error:
        raise Failure(str(error), 2) from error
    except KeyboardInterrupt:
        more = "the same command goes on from there" if resume else "--resume keeps results"
        raise Failure(f"stopped after {len(results)} of {len(files)} files; {more}", 130) from None
    results.sort(key=lambda result: files.index(result.file))
    if junit:
        write(junit, to_junit(results))
    if as_json:
        print_json(to_json(results))
    else:
        _print(results)
    status = exit_status(results)
    bad = [result for result in results if result.status in ("refused", "unreadable")]
    if status == 2:
        first = bad[0].reason or f"{bad[0].file}: {bad[0].status}"
        rest = f" (and {counted(len(bad) - 1, 'more file')})" if len(bad) > 1 else ""
        raise Failure(first + rest, status)
    return status


def choose(
    preset: str | None, patterns: str | None, single: dict[str, Any], files: int
) -> list[Options]:
    """The options of each file."""
    from sparseframes.validation import PRESETS, Options

    base = PRESETS[preset] if preset else None
    changes = {name: value for name, value in single.items() if value not in (None, False)}
    if patterns is not None:
        changes["patterns"] = tuple(name.strip() for name in patterns.split(","))
    try:
        options = dataclasses.replace(base.options if base else Options(), **changes)
    except ValueError as error:
        raise Failure(str(error), 2) from None
    if base and base.together:
        return [options.share(number, files) for number in range(files)]
    return [options] * files


def write(path: str, text: str) -> None:
    """Write a report: the file is whole, or not there."""
    part = f"{path}.{os.getpid()}.part"
    try:
        Path(part).write_text(text, encoding="utf-8")
        Path(part).replace(path)
    finally:
        Path(part).unlink(missing_ok=True)


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


def _print(results: Sequence[FileResult]) -> None:
    from sparseframes.validation import summary
    from sparseframes.validation.report import in_words

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
            out.print(in_words(mismatch), markup=False, soft_wrap=True)
        if result.status in ("refused", "unreadable", "failed"):
            reason = f"{result.status}: {result.reason}"
            out.print(reason, markup=False, soft_wrap=True)
    sums = summary(results)
    counts = ", ".join(
        f"{sums[key]} {key}"
        for key in ("exact", "mismatch", "failed", "refused", "unreadable")
        if key in sums
    )
    out.print(
        f"{counted(len(results), 'file')}: {counts}; {counted(sums['requests'], 'request')}, "
        f"{counted(sums['frames_checked'], 'frame')} compared, "
        f"{sums['mismatches']} mismatches"
    )
