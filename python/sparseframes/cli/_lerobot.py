"""``sparseframes lerobot``: what is done with LeRobot's data sets."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from sparseframes.cli._common import Bar, console, counted, json_option, print_json
from sparseframes.cli._encode import (
    codec_option,
    idr_option,
    jobs_option,
    quality_options,
    terminable,
    threads_option,
)

if TYPE_CHECKING:
    from sparseframes.lerobot import ConvertResult


@click.group()
def lerobot() -> None:
    """Work on LeRobot's data sets."""


@lerobot.command()
@click.argument("root")
@click.argument("dest")
@codec_option
@click.option(
    "--period",
    type=click.IntRange(2, 128),
    default=32,
    show_default=True,
    help="Frames from one anchor to the next.",
)
@quality_options
@idr_option
@threads_option
@jobs_option
@click.option("--resume", is_flag=True, help="Go on after an earlier run.")
@click.option("--restart", is_flag=True, help="Drop what an earlier run left.")
@json_option
def convert(root: str, dest: str, as_json: bool, **options: Any) -> int:
    """Make of the data set ROOT one in DEST of which any frame costs at most three pictures.

    All videos are encoded again, with the same frames at the same times; the rest is copied. DEST
    is there whole or not at all: what an interrupted run has finished waits in a hidden folder
    beside it for the same command with --resume. Videos of depth are copied.
    """
    from sparseframes.lerobot import convert as convert_dataset

    with terminable(), Bar("encoding", hidden=as_json) as bar:
        result = convert_dataset(root, dest, progress=bar, **options)
    if as_json:
        values = dataclasses.asdict(result)
        for video, listed in zip(result.videos, values["videos"], strict=True):
            listed["ratio"] = video.ratio
        print_json(values)
        return 0
    if result.videos:
        console().print(_table(result))
    count = len(result.videos) + result.resumed
    parts = [f"{dest}: {counted(count, 'video')}"]
    if result.resumed:
        parts.append(f"{result.resumed} of them from an earlier run")
    parts.append(f"{result.bytes_before / 1e6:.2f} -> {result.bytes_after / 1e6:.2f} MB")
    parts.append(f"{counted(result.copied, 'other file')} copied")
    console().print(", ".join(parts), markup=False, soft_wrap=True)
    return 0


def _table(result: ConvertResult) -> Table:
    table = Table("video", "frames", "MB before", "MB after", "ratio", "pictures a frame")
    for video in result.videos:
        before = video.amplification_before
        table.add_row(
            os.path.relpath(video.target, result.dest),
            str(video.frames),
            f"{video.bytes_before / 1e6:.2f}",
            f"{video.bytes_after / 1e6:.2f}",
            f"{video.ratio:.2f}",
            f"{'?' if before is None else f'{before:.1f}'} -> {video.amplification_after:.2f}",
        )
    return table
