"""``sparseframes info``: what a file holds."""

from __future__ import annotations

import dataclasses
from typing import Any

import click
from rich.table import Table

from sparseframes import SparseError, VideoDecoder
from sparseframes.cli._common import console, counted, json_option, print_json


@click.command()
@click.argument("files", nargs=-1, required=True)
@json_option
def info(files: tuple[str, ...], as_json: bool) -> int:
    """Tell what the video stream of each FILE is like."""
    facts = []
    status = 0
    for file in files:
        try:
            with VideoDecoder(file) as decoder:
                facts.append(describe(file, decoder))
        except SparseError as error:
            click.echo("sparseframes: " + " ".join(str(error).split()), err=True)
            facts.append({"file": file, "error": str(error)})
            status = 1
    if as_json:
        print_json(facts)
        return status
    for item in facts:
        if "error" not in item:
            _print(item)
    return status


def describe(file: str, decoder: VideoDecoder) -> dict[str, Any]:
    """The facts of one file as plain values."""
    metadata = decoder.metadata
    values = dataclasses.asdict(metadata)
    aspect = values["pixel_aspect_ratio"]
    values["pixel_aspect_ratio"] = f"{aspect.numerator}:{aspect.denominator}" if aspect else None
    return {
        "file": file,
        "num_frames": metadata.num_frames,
        "average_fps": metadata.average_fps,
        "duration_seconds": metadata.duration_seconds,
        **values,
        "key_frames": len(decoder.key_frame_indices),
    }


def _print(item: dict[str, Any]) -> None:
    table = Table.grid(padding=(0, 2))
    fps = item["average_fps"]
    duration = item["duration_seconds"]
    turned = item["rotation"]
    frames, promised = item["num_frames"], item["num_frames_from_header"]
    differs = f" (the container tells of {promised})" if promised not in (None, frames) else ""
    pixel_format = item["pixel_format"] or "unknown pixel format"
    rows = {
        "codec": " ".join(filter(None, (item["codec"], item["profile"]))),
        "size": f"{item['width']}x{item['height']}, {pixel_format}"
        + (f", turned by {turned:g} degrees" if turned else "")
        + (", mirrored" if item["flip"] else ""),
        "frames": f"{frames}{differs}, {counted(item['key_frames'], 'key frame')}",
        "time": (f"{duration:.3f} s" if duration is not None else "unknown")
        + (f", {fps:.3f} frames/s" if fps else ""),
        "container": f"{item['container']}, stream {item['stream_index']}",
        "decoding": "closures" if item["sparse"] else "from the last key frame",
    }
    for name, text in rows.items():
        table.add_row(f"  {name}", text)
    out = console()
    out.print(item["file"], markup=False, style="bold", soft_wrap=True)
    out.print(table)
