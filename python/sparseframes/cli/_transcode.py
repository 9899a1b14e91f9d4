"""``sparseframes transcode`` and ``sparseframes check-ddra``."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from sparseframes.cli._common import Bar, Failure, console, counted, json_option, print_json
from sparseframes.cli._encode import (
    codec_option,
    idr_option,
    jobs_option,
    quality_options,
    terminable,
    threads_option,
)
from sparseframes.cli._validate import expand
from sparseframes.errors import SparseError

if TYPE_CHECKING:
    from sparseframes.encode import DDRAReport, TranscodeResult


def _period(context: click.Context, param: click.Parameter, value: str) -> int | str:
    """A number from 2 to 128, or auto."""
    if value == "auto":
        return value
    if not value.isdecimal() or not 2 <= int(value) <= 128:
        raise click.BadParameter(
            f"{value!r} is not a number from 2 to 128, nor auto", context, param
        )
    return int(value)


@click.command()
@click.argument("inputs", metavar="IN...", nargs=-1, required=True)
@click.option(
    "-o", "--output", "folder", required=True, metavar="DIR", help="Folder for the new files."
)
@codec_option
@click.option(
    "--period",
    callback=_period,
    default="32",
    show_default=True,
    help="Frames from one anchor to the next, or auto for a short trial on each file.",
)
@quality_options
@click.option("--pix-fmt", "pixel_format", help="Pixel format; the source's if not given.")
@idr_option
@click.option("--suffix", default=".mp4", show_default=True, help="Ending of the new names.")
@threads_option
@jobs_option
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@click.option("--resume", is_flag=True, help="Leave out what an earlier run has finished.")
@click.option("--measure", is_flag=True, help="Compute PSNR and SSIM.")
@json_option
def transcode(
    inputs: tuple[str, ...],
    folder: str,
    suffix: str,
    jobs: int,
    force: bool,
    resume: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Encode files again so that any frame costs at most three pictures.

    IN are files, folders and patterns; they stay as they are. A file of an interrupted run that is
    there under its name is whole: the same command with --resume goes on after it.
    """
    from sparseframes.encode import find_program

    find_program()
    named, found = expand(inputs)
    jobs_of = plan_targets([*named, *found], Path(folder), suffix)
    if force and resume:
        raise Failure("--force and --resume contradict each other", 2)
    done = [target for target in jobs_of.values() if target.exists()]
    if done and not (force or resume):
        more = f" and {len(done) - 1} more" if len(done) > 1 else ""
        raise Failure(f"{done[0]} exists already{more}: --force overwrites, --resume skips")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{folder}: {error.strerror}") from None
    todo = {s: t for s, t in jobs_of.items() if not (resume and t.exists())}
    results: list[TranscodeResult] = []
    failures: list[tuple[str, str]] = []
    with Bar("transcoding", hidden=as_json) as bar:
        for outcome in run(todo, jobs, bar, force=force, **options):
            if isinstance(outcome, tuple):
                failures.append(outcome)
            else:
                results.append(outcome)
    results.sort(key=lambda result: list(jobs_of).index(result.source))
    if as_json:
        print_json(
            {
                "files": [{**dataclasses.asdict(r), "ratio": r.ratio} for r in results],
                "skipped": len(jobs_of) - len(todo),
                "failed": [{"source": source, "reason": reason} for source, reason in failures],
            }
        )
    else:
        if results:
            console().print(summary(results))
        if len(todo) < len(jobs_of):
            there = counted(len(jobs_of) - len(todo), "file")
            console().print(f"already there: {there}")
    for _, reason in failures[:-1]:
        click.echo("sparseframes: " + " ".join(reason.split()), err=True)
    if failures:
        raise Failure(failures[-1][1])
    return 0


def plan_targets(sources: list[str], folder: Path, suffix: str) -> dict[str, Path]:
    """Where each source goes; two sources may not go to one file, nor a source to itself."""
    targets: dict[str, Path] = {}
    taken: dict[Path, str] = {}
    for source in dict.fromkeys(sources):
        target = folder / (Path(source).stem + suffix)
        if target in taken:
            raise Failure(f"{taken[target]} and {source} would both become {target}", 2)
        if target.exists() and target.samefile(source):
            raise Failure(f"{source} would be written over: choose another folder", 2)
        taken[target] = source
        targets[source] = target
    return targets


def run(
    todo: dict[str, Path], jobs: int, bar: Bar, **options: Any
) -> Iterator[TranscodeResult | tuple[str, str]]:
    """Results as they come, and pairs of source and reason for what failed.

    An interruption stops all programs that run and removes what they wrote.
    """
    from sparseframes.encode import transcode as transcode_file
    from sparseframes.encode._jobs import side_by_side

    def encode(source: str, progress: Callable[[float], None]) -> TranscodeResult:
        return transcode_file(source, todo[source], progress=progress, **options)

    sizes = {source: Path(source).stat().st_size for source in todo}
    outcomes = side_by_side(sizes, encode, jobs, bar, os.path.basename)
    with terminable(), closing(outcomes):
        for source, outcome in outcomes:
            yield (source, str(outcome)) if isinstance(outcome, Exception) else outcome


def summary(results: list[TranscodeResult]) -> Table:
    """The table of what was done."""
    measured = any(result.psnr is not None for result in results)
    table = Table("file", "frames", "MB before", "MB after", "ratio", "pictures a frame")
    for name in ("PSNR", "SSIM") if measured else ():
        table.add_column(name, justify="right")

    def row(name: str, result: TranscodeResult) -> list[str]:
        before = result.amplification_before
        cells = [
            name,
            str(result.frames),
            f"{result.bytes_before / 1e6:.2f}",
            f"{result.bytes_after / 1e6:.2f}",
            f"{result.ratio:.2f}",
            f"{'?' if before is None else f'{before:.1f}'} -> {result.amplification_after:.2f}",
        ]
        if measured:
            psnr, ssim = result.psnr, result.ssim
            cells += ["" if psnr is None else f"{psnr:.2f}", "" if ssim is None else f"{ssim:.4f}"]
        return cells

    for result in results:
        table.add_row(*row(Path(result.target).name, result))
    if len(results) > 1:
        before = sum(result.bytes_before for result in results)
        after = sum(result.bytes_after for result in results)
        table.add_section()
        table.add_row(
            "all",
            str(sum(result.frames for result in results)),
            f"{before / 1e6:.2f}",
            f"{after / 1e6:.2f}",
            f"{after / before:.2f}" if before else "",
        )
    return table


@click.command("check-ddra")
@click.argument("files", nargs=-1, required=True)
@json_option
def check_ddra(files: tuple[str, ...], as_json: bool) -> int:
    """Prove from the slice headers that any frame of FILES costs at most three pictures.

    Every picture has to be an intra anchor, or to reference at most the two anchors around it and
    be referenced by none. The exit status is 1 when one is not, or can't be read.
    """
    from sparseframes.encode import check_ddra as check_file

    reports: list[DDRAReport] = []
    failures: dict[str, str] = {}
    with Bar("checking", hidden=as_json) as bar:
        for k, file in enumerate(files):

            def progress(share: float, k: int = k, file: str = file) -> None:
                bar((k + share) / len(files), Path(file).name)

            try:
                reports.append(check_file(file, progress=progress))
            except SparseError as error:
                failures[file] = " ".join(str(error).split())
    if as_json:
        results = [{"ok": report.ok, **dataclasses.asdict(report)} for report in reports]
        print_json([*results, *({"file": file, "error": text} for file, text in failures.items())])
    else:
        for report in reports:
            console().print(_verdict(report), markup=False, soft_wrap=True)
    for text in failures.values():
        click.echo(f"sparseframes: {text}", err=True)
    return 1 if failures or not all(report.ok for report in reports) else 0


def _verdict(report: DDRAReport) -> str:
    facts = (
        f"{report.codec}, {report.frames} frames, {len(report.anchors)} anchors at most "
        f"{report.longest_interval} apart; a frame costs {report.mean:.2f} pictures, at most "
        f"{report.worst}"
    )
    if report.ok:
        return f"{report.file}: DDRA, {facts}"
    lines = [f"{report.file}: not DDRA, {facts}"]
    lines += [f"  {violation}" for violation in report.violations[:10]]
    if report.violation_count > 10:
        lines.append(f"  and {report.violation_count - 10} more")
    return "\n".join(lines)
