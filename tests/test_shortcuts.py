"""Where the decoders see that work changes nothing and leave it out, the samples are the same.

The patches that do so compare weights, motion and strengths of edges. Most of a picture stands
still here, which is where they act; parts move and all of it fades, so that weights and strengths
come in all kinds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import media
import numpy as np
import pytest

from sparseframes import VideoDecoder
from sparseframes.validation.reference import digest, pyav_reference

FRAMES = 24

H264: list[tuple[str, str, dict[str, Any]]] = [
    ("weights", "yuv420p", {"weightp": 2, "bframes": 0, "ref": 4}),
    ("weights-b", "yuv420p", {"weightp": 2, "bframes": 3, "ref": 4, "weightb": 1}),
    ("small", "yuv420p", {"partitions": "all", "subme": 8, "bframes": 0, "qp": 30}),
    ("small-b", "yuv420p", {"partitions": "all", "subme": 8, "bframes": 3, "qp": 34}),
    ("cavlc", "yuv420p", {"weightp": 2, "cabac": 0, "8x8dct": 1}),
    ("cavlc-4x4", "yuv420p", {"cabac": 0, "8x8dct": 0}),
    ("cabac-4x4", "yuv420p", {"8x8dct": 0, "bframes": 2, "direct": "temporal"}),
    ("slices", "yuv420p", {"slices": 4, "weightp": 2}),
    ("sharp", "yuv420p", {"deblock": "-6,-6", "weightp": 2}),
    ("strong", "yuv420p", {"deblock": "6,6", "weightp": 2, "qp": 38}),
    ("chroma-qp", "yuv420p", {"chroma-qp-offset": -6, "qp": 32}),
    ("mbaff", "yuv420p", {"interlaced": 1, "weightp": 2}),
    ("422", "yuv422p", {"weightp": 2, "bframes": 2}),
    ("444", "yuv444p", {"weightp": 2, "bframes": 2}),
    ("10bit", "yuv420p10le", {"weightp": 2, "bframes": 2}),
    ("refresh", "yuv420p", {"intra-refresh": 1, "keyint": 10}),
]
HEVC: list[tuple[str, str, dict[str, Any]]] = [
    ("weights", "yuv420p", {"weightp": 1, "bframes": 0, "ref": 4}),
    ("weights-b", "yuv420p", {"weightp": 1, "weightb": 1, "bframes": 4, "ref": 4}),
    ("amp", "yuv420p", {"rect": 1, "amp": 1, "weightp": 1, "ctu": 64}),
    ("ctu16", "yuv420p", {"ctu": 16, "weightb": 1, "max-tu-size": 16}),
    ("ctu32", "yuv420p", {"ctu": 32, "min-cu-size": 16, "rect": 1}),
    ("deep", "yuv420p", {"tu-inter-depth": 3, "tu-intra-depth": 3, "max-tu-size": 8}),
    ("slices", "yuv420p", {"slices": 3, "weightp": 1}),
    ("deblock", "yuv420p", {"deblock": "6,6", "sao": 0, "qp": 38}),
    ("no-sao", "yuv420p", {"deblock": "-4,-4", "sao": 0, "cu-lossless": 1}),
    ("422", "yuv422p", {"weightp": 1, "weightb": 1}),
    ("444", "yuv444p", {"weightp": 1, "weightb": 1}),
    ("10bit", "yuv420p10le", {"weightp": 1, "weightb": 1}),
]


def still_picture(number: int, width: int, height: int) -> np.ndarray:
    """RGB [H, W, 3]: a texture that stands still but for blocks, and fades now and then."""
    random = np.random.default_rng(5)
    texture = random.integers(0, 60, (height // 8 + 1, width // 8 + 1, 3))
    image = np.kron(texture, np.ones((8, 8, 1)))[:height, :width] + np.arange(width)[:, None] / 2
    left, top = 3 * number % (width - 32), number * 5 // 2 % (height - 16)
    image[top : top + 16, left : left + 32] = (200, 90, 30 + number)
    image[height - 16 :, : 2 * number + 8] += 40
    # specks, for prediction units of all sizes
    for x, y, across, down in random.integers(0, 200, (40, 4)):
        x, y = (x + across % 5 * number) % (width - 5), (y + down % 3 * number) % (height - 5)
        image[y : y + 5, x : x + 5] = (across, down, 128)
    if number % 12 >= 9:  # to be predicted with a weight
        image = image * (1 - 0.05 * (number % 12 - 8))
    elif number % 12 >= 6:  # with an offset alone
        image += 3 * (number % 12 - 5)
    return np.clip(image, 0, 255).astype(np.uint8)


def encode(path: Path, encoder: str, pix_fmt: str, params: dict[str, Any]) -> None:
    settings = ":".join(f"{key}={value}" for key, value in {"keyint": 250, **params}.items())
    media.encode(
        path,
        encoder,
        numbers=range(FRAMES),
        size=(200, 136),  # neither a multiple of a CTB
        pix_fmt=pix_fmt,
        draw=still_picture,
        **{f"{encoder[3:]}-params": settings},
    )


@pytest.mark.parametrize(
    ("encoder", "name", "pix_fmt", "params"),
    [("libx264", *case) for case in H264] + [("libx265", *case) for case in HEVC],
    ids=[f"h264-{case[0]}" for case in H264] + [f"hevc-{case[0]}" for case in HEVC],
)
def test_same_samples(
    encoder: str, name: str, pix_fmt: str, params: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / f"{name}.mp4"
    encode(path, encoder, pix_fmt, params)
    reference = pyav_reference(str(path))
    assert reference.damaged_from is None
    assert len(reference.digests) == FRAMES
    with VideoDecoder(path, pixel_format="native") as decoder:
        for k in (*range(FRAMES - 1, -1, -3), *range(FRAMES)):
            assert digest(list(decoder[k])) == reference.digests[k], k
