"""``sparseframes index``: make and check saved indexes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from sparseframes import SparseError, UnsupportedError, VideoDecoder
from sparseframes._saved import SET_SUFFIX, make_place
from sparseframes._source import make_source
from sparseframes.cli._common import Bar, Failure, console, json_option, print_json
from sparseframes.cli._validate import expand
from sparseframes.errors import SavedIndexError


@dataclass(frozen=True)
class Outcome:
    """What came of one file.

    Attributes:
        status: "made", "current" (there was one that fits), "missing", "stale" (damaged ones, too;
            both only with ``--check``), "unsupported", "failed".
        frames, bytes: of the index, where one was made or found.
    """

    file: str
    status: str
    reason: str = ""
    frames: int = 0
    bytes: int = 0


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 64), help="Threads.")
@click.option(
    "--into",
    metavar="PATH",
    help=f"A folder for the indexes, or one file for all whose name ends in {SET_SUFFIX!r}. "
    "[default: FILE.sparse beside each FILE]",
)
@click.option(
    "--check", is_flag=True, help="Only tell whether each file's index is there and fits."
)
@click.option("--force", is_flag=True, help="Make them anew where they fit, too.")
@json_option
def index(
    paths: tuple[str, ...], jobs: int, into: str | None, check: bool, force: bool, as_json: bool
) -> int:
    """Save the indexes of video files, so that opening them reads no headers.

    PATHS are files, folders and patterns. Files whose index fits are passed over: after a stop
    the same command goes on from there.

    The exit status is 1 when an index can't be made, or with --check isn't there or doesn't fit.
    """
    if into is not None and not into.endswith(SET_SUFFIX):
        try:
            Path(into).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Failure(f"{into}: {error.strerror}", 1) from error
    named, found = expand(paths)
    files = list(dict.fromkeys([*named, *found]))
    outcomes: list[Outcome] = []
    with Bar("checking" if check else "indexing", hidden=as_json) as bar:
        for outcome in _run(files, jobs, into or "auto", check=check, force=force):
            outcomes.append(outcome)
            bar(len(outcomes) / len(files))
            if outcome.reason and not as_json and outcome.status != "unsupported":
                click.echo("sparseframes: " + " ".join(outcome.reason.split()), err=True)
    outcomes.sort(key=lambda outcome: files.index(outcome.file))
    if as_json:
        print_json([asdict(outcome) for outcome in outcomes])
    else:
        _print(outcomes)
    return int(any(outcome.status in ("missing", "stale", "failed") for outcome in outcomes))


def _run(files: list[str], jobs: int, where: str, *, check: bool, force: bool) -> Iterator[Outcome]:
    """Outcomes as they come. The work is in the library, which lets other threads go on."""
    with ThreadPoolExecutor(jobs) as pool:
        waiting: set[Future[Outcome]] = set()
        left = iter(files)
        try:
            while True:
                for file in left:
                    waiting.add(pool.submit(_do, file, where, check=check, force=force))
                    if len(waiting) >= 2 * jobs:
                        break
                if not waiting:
                    return
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _do(file: str, where: str, *, check: bool, force: bool) -> Outcome:
    place = make_place(where)
    assert place is not None
    try:
        source = make_source(file)
        found = None if force and not check else place.find(source)
        if found is not None:
            try:
                with VideoDecoder(
                    file,
                    saved_index=found if isinstance(found, bytes) else Path(found),
                    on_stale="refuse",
                ) as decoder:
                    size = len(found) if isinstance(found, bytes) else Path(found).stat().st_size
                    return Outcome(file, "current", frames=len(decoder), bytes=size)
            except SavedIndexError as error:
                if check:
                    return Outcome(file, "stale", str(error))
        if check:
            return Outcome(file, "missing", f"{file}: there is no saved index")
        with VideoDecoder(file) as decoder, decoder._use() as reader:
            saved = reader.export_index()
            place.put(source, saved)
            return Outcome(file, "made", frames=reader.frame_count(), bytes=len(saved))
    except UnsupportedError as error:
        return Outcome(file, "unsupported", str(error))
    except (SparseError, OSError) as error:
        return Outcome(file, "failed", str(error))


def _print(outcomes: list[Outcome]) -> None:
    parts = []
    for status in ("made", "current", "missing", "stale", "unsupported", "failed"):
        count = sum(outcome.status == status for outcome in outcomes)
        if count:
            parts.append(f"{count} {status}")
    frames = sum(outcome.frames for outcome in outcomes)
    size = sum(outcome.bytes for outcome in outcomes)
    text = ", ".join(parts) or "no files"
    if frames:
        text += f"; {size} bytes for {frames} frames, {size / frames:.1f} a frame"
    console().print(text, markup=False, soft_wrap=True)
