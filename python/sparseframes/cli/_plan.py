"""``sparseframes plan``: what a request costs."""

from __future__ import annotations

from typing import Any

import click
from rich.table import Table

from sparseframes import VideoDecoder
from sparseframes.cli._common import (
    console,
    frames_option,
    json_option,
    parse_frames,
    print_json,
)

# pictures listed in the table
ROWS = 60


@click.command()
@click.argument("file")
@frames_option
@json_option
def plan(file: str, spec: str, as_json: bool) -> None:
    """Show which pictures of FILE have to be reconstructed for some frames."""
    with VideoDecoder(file) as decoder:
        facts = make_plan(file, decoder, parse_frames(spec, lambda: len(decoder)))
    if as_json:
        print_json(facts)
        return
    out = console()
    out.print(_table(facts["pictures"][:ROWS]))
    if len(facts["pictures"]) > ROWS:
        out.print(f"and {len(facts['pictures']) - ROWS} more, which --json lists")
    out.print(
        f"{len(facts['targets'])} frames, {len(facts['reconstruct'])} pictures: amplification "
        f"{facts['amplification']:.2f}, {facts['bytes']} bytes; from the last key frames it "
        f"would be {facts['linear_count']} pictures"
    )


def make_plan(file: str, decoder: VideoDecoder, indices: list[int]) -> dict[str, Any]:
    """The plan of a request as plain values."""
    made = decoder.plan(indices)
    with decoder._use() as reader:
        table = decoder._frame_table(reader)
    shown = {int(picture): k for k, picture in enumerate(table["picture"].tolist())}
    targets = set(made.targets.tolist())
    pictures = []
    for picture in made.reconstruct.tolist():
        index = shown.get(picture)
        pictures.append(
            {
                "picture": picture,
                "frame": index,
                "type": "?" if index is None else table["picture_type"][index].decode() or "?",
                "key": index is not None and bool(table["key"][index]),
                "target": index in targets,
                "references": list(made.references(picture)),
            }
        )
    return {
        "file": file,
        "targets": made.targets.tolist(),
        "reconstruct": made.reconstruct.tolist(),
        "amplification": made.amplification,
        "bytes": made.bytes,
        "linear_count": made.linear_count,
        "pictures": pictures,
    }


def _table(pictures: list[dict[str, Any]]) -> Table:
    table = Table("picture", "frame", "type", "asked for", "references")
    for picture in pictures:
        table.add_row(
            str(picture["picture"]),
            "not shown" if picture["frame"] is None else str(picture["frame"]),
            picture["type"] + (" key" if picture["key"] else ""),
            "yes" if picture["target"] else "",
            " ".join(map(str, picture["references"])),
        )
    return table
