"""Clips for the demonstration: moving shapes with noise, made with PyAV's encoders."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT, FRAMES, FPS = 640, 480, 300, 30


@dataclass(frozen=True)
class Clip:
    """One clip to make: its file's name, the encoder and the encoder's own parameters."""

    name: str
    encoder: str
    parameters: str

    @property
    def options(self) -> dict[str, str]:
        """What FFmpeg calls these parameters."""
        if self.encoder == "libx265":
            return {"preset": "superfast", "x265-params": f"log-level=none:{self.parameters}"}
        return {"preset": "veryfast", "x264-params": self.parameters}


# How much is saved depends on how many pictures are references: with the encoder's usual three B
# pictures in a row about half of them are, with sixteen in a row one in nine.
CLIPS = (
    Clip("h264_gop250.mp4", "libx264", "keyint=250:scenecut=0:bframes=3"),
    Clip("h264_gop250_b16.mp4", "libx264", "keyint=250:scenecut=0:bframes=16:b-adapt=0"),
    Clip("hevc_gop250_b16.mp4", "libx265", "keyint=250:bframes=16:b-adapt=0:rc-lookahead=20"),
    Clip("h264_gop30.mp4", "libx264", "keyint=30:scenecut=0:bframes=3"),
)


def picture(number: int, noise: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """One RGB picture [H, W, 3]: a sliding gradient, two moving discs, a camera's noise."""
    image = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    image[..., 0] = (np.arange(WIDTH) + 2 * number) // 4 % 200 + 20
    image[..., 1] = ((np.arange(HEIGHT) + number) // 3 % 200 + 20)[:, None]
    image[..., 2] = 96
    for k, (radius, speed) in enumerate(((60, 0.05), (35, 0.11))):
        left = int(WIDTH / 2 + WIDTH / 3 * np.cos(number * speed + k)) - radius
        top = int(HEIGHT / 2 + HEIGHT / 3 * np.sin(1.3 * number * speed)) - radius
        around = np.arange(-radius, radius) ** 2
        disc = around[:, None] + around < radius**2
        image[top : top + 2 * radius, left : left + 2 * radius][disc] = (220, 60 + 120 * k, 40)
    return image + np.roll(noise, (17 * number, 29 * number), (0, 1))


def make(clip: Clip, folder: Path, progress: Callable[[float], Any]) -> Path:
    """Write a clip, unless it is there already, and return its path."""
    import av

    path = folder / clip.name
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(1).integers(0, 8, (HEIGHT, WIDTH, 1), np.uint8)
    unfinished = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        with av.open(str(unfinished), "w") as container:
            stream = container.add_stream(clip.encoder, rate=FPS, options=clip.options)
            stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
            stream.codec_context.thread_count = 2
            for number in range(FRAMES):
                frame = av.VideoFrame.from_ndarray(picture(number, noise), format="rgb24")
                frame.pts, frame.time_base = number, Fraction(1, FPS)
                container.mux(stream.encode(frame))
                progress((number + 1) / FRAMES)
            container.mux(stream.encode(None))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path
