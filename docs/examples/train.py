#!/usr/bin/env python3
"""Train a small network on clips, on the CPU, to tell odd videos from even ones.

Without videos it makes some: a bright square over noise, moving to the right in the even ones and
to the left in the odd ones. Needs the extras ``torch`` and ``cli``, and PyAV for making videos:

    pip install 'sparseframes[torch,cli]' av
    python docs/examples/train.py
    python docs/examples/train.py even.mp4 odd.mp4 even_too.mp4 ...
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import nn
from torch.utils.data import DataLoader

from sparseframes.torch import ClipDataset

FRAMES = 8


def make_videos(folder: Path, count: int) -> list[str]:
    """Videos of 120 frames in one long group of pictures, as cameras write them."""
    import av
    import numpy as np

    rng = np.random.default_rng(0)
    paths = []
    for k in range(count):
        path = folder / f"square_{k}.mp4"
        with av.open(str(path), "w") as container:
            stream = container.add_stream("libx264", rate=30, options={"g": "250"})
            stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
            begin, pace = int(rng.integers(0, 96)), int(rng.integers(1, 4))
            for t in range(120):
                picture = rng.integers(0, 60, (96, 128, 3), np.uint8)
                left = (begin + (pace if k % 2 == 0 else -pace) * t) % 104
                picture[36:60, left : left + 24] = 230
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            container.mux(stream.encode(None))
        paths.append(str(path))
    return paths


class Network(nn.Module):
    """Two convolutions over time and space, and a mean."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv3d(3, 16, (3, 7, 7), stride=(1, 4, 4)),
            nn.BatchNorm3d(16),
            nn.ReLU(),
            nn.Conv3d(16, 32, (3, 3, 3), stride=(1, 2, 2)),
            nn.BatchNorm3d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool3d(1),
            nn.Flatten(),
            nn.Linear(32, 2),
        )

    def forward(self, clips: torch.Tensor) -> torch.Tensor:
        """Scores [N, 2] of clips of uint8 [N, T, C, H, W]."""
        return self.layers(clips.permute(0, 2, 1, 3, 4).float() / 255 - 0.5)


def train(videos: list[str], args: argparse.Namespace) -> None:
    """Train, and show how it goes."""
    torch.manual_seed(0)
    data = ClipDataset(
        videos, num_frames_per_clip=FRAMES, clips_per_video=args.clips_per_video, seed=0
    )
    loader = DataLoader(
        data,
        args.batch,
        shuffle=True,
        num_workers=args.workers,
        persistent_workers=args.workers > 0,
    )
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:.0f} samples a second, loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
    ]
    with Progress(*columns) as progress:
        for epoch in range(args.epochs):
            # other clips than in the last epoch, in the workers that live on, too
            data.set_epoch(epoch)
            task = progress.add_task(f"epoch {epoch + 1}", total=len(data), rate=0.0, loss=0.0)
            begun, seen, right, total = time.monotonic(), 0, 0, 0.0
            for batch in loader:
                labels = batch["video"] % 2
                scores = network(batch["frames"])
                loss = nn.functional.cross_entropy(scores, labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                seen += len(labels)
                right += int((scores.argmax(1) == labels).sum())
                total += loss.item() * len(labels)
                rate = seen / (time.monotonic() - begun)
                progress.update(task, completed=seen, rate=rate, loss=total / seen)
            progress.console.print(
                f"epoch {epoch + 1}: loss {total / seen:.3f}, {right / seen:.0%} right, "
                f"{rate:.1f} samples a second"
            )


def main() -> None:
    """Run with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("videos", nargs="*", help="videos to train on; made if there are none")
    parser.add_argument("--clips", type=int, default=16, help="videos to make")
    parser.add_argument("--clips-per-video", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where to make them; a temporary one if none")
    args = parser.parse_args()
    # the workers decode on the other cores
    torch.set_num_threads(1)
    if args.videos:
        train(args.videos, args)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            train(make_videos(args.folder or Path(temporary), args.clips), args)


if __name__ == "__main__":
    main()
