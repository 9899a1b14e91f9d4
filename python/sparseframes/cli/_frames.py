"""``sparseframes frames``: frames as PNG files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from sparseframes import VideoDecoder
from sparseframes.cli._common import (
    Bar,
    console,
    frames_option,
    json_option,
    need,
    parse_frames,
    print_json,
)

# frames decoded and held at a time
CHUNK = 16


@click.command()
@click.argument("file")
@frames_option
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the pictures; made if it is not there.",
)
@click.option("--gray", is_flag=True, help="Write gray pictures.")
@json_option
def frames(file: str, spec: str, output: Path, gray: bool, as_json: bool) -> None:
    """Write some frames of FILE as PNG pictures."""
    need("PIL", "pillow", "writing PNG")
    with VideoDecoder(file, pixel_format="gray" if gray else "rgb24") as decoder:
        count = len(decoder)
        wanted = parse_frames(spec, lambda: count)
        # the same frame twice is one file; an index outside fails before anything is written
        decoder.plan(wanted)
        wanted = list(dict.fromkeys(k + count if k < 0 else k for k in wanted))
        output.mkdir(parents=True, exist_ok=True)
        written = []
        with Bar("writing", hidden=as_json) as bar:
            for first in range(0, len(wanted), CHUNK):
                written += _write(decoder, wanted[first : first + CHUNK], Path(file).stem, output)
                bar(len(written) / len(wanted))
    if as_json:
        print_json({"file": file, "frames": written})
    else:
        for item in written:
            console().print(item["path"], markup=False, soft_wrap=True)


def _write(
    decoder: VideoDecoder, indices: list[int], stem: str, folder: Path
) -> list[dict[str, Any]]:
    written = []
    for frame in decoder.get_frames_at(indices):
        path = folder / f"{stem}_{frame.index:06d}.png"
        save_png(frame.data, path)
        known = frame.pts_seconds == frame.pts_seconds
        written.append(
            {
                "index": frame.index,
                "pts_seconds": frame.pts_seconds if known else None,
                "path": str(path),
            }
        )
    return written


def save_png(pixels: Any, path: Path) -> None:
    """Write [H, W, C] pixels, so that a file of this name is always a whole one."""
    from PIL import Image

    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        image.save(unfinished, format="PNG")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
