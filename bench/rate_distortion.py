"""Size at equal quality: DDRA profiles against LeRobot's setting and others, clip by clip.

Each setting encodes each clip at several crf. Its size at a PSNR is interpolated, in the logarithm
of the size, between the two encodes around it; a PSNR outside of what was encoded is not
extrapolated. The PSNR is that of RGB, over all frames at once, and the one that sizes are compared
at is that of LeRobot v3's default: libsvtav1 -g 2 -crf 30 -preset 12, by the SVT-AV1 in PyAV's
wheel, which is what LeRobot's users have. Needs `make encoder` and PyAV.

Decode time is the mean of ten random frames of the file with that setting's crf nearest to the
PSNR, each asked for alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from sparseframes import VideoDecoder
from sparseframes.encode import CODECS, Settings, find_program

PAPER = {
    "hevc": "keyint=32:min-keyint=32:scenecut=0:open-gop=1:bframes=31:b-adapt=0:b-pyramid=0:"
    "rc-lookahead=40:ref=1",
    "h264": "keyint=32:min-keyint=32:scenecut=0:open-gop=1:bframes=31:b-adapt=0:b-pyramid=none:"
    "rc-lookahead=40:ref=1",
}
CRFS = (10, 14, 17, 20, 23, 26, 30)


@dataclass
class Point:
    """One encode."""

    crf: float
    size: int
    psnr: float
    path: str = ""


@dataclass
class Outcome:
    """One setting on one clip, at LeRobot's PSNR."""

    clip: str
    setting: str
    psnr: float
    size: float | None
    ratio: float | None
    decode_ms: float | None


def arguments_of(setting: str, crf: float) -> list[str]:
    """The program's arguments for hevc-balanced, h264-fast-16, hevc-paper, hevc-fast+qcomp=0.7."""
    name, *params = setting.split("+")
    codec, profile, *rest = name.split("-")
    if profile == "paper":
        name = "x265" if codec == "hevc" else "x264"
        extra = ":log-level=error" if codec == "hevc" else ""
        return [
            *("-c:v", CODECS[codec], "-preset", "medium", "-crf", f"{crf:g}"),
            *(f"-{name}-params", PAPER[codec] + extra),
        ]
    period = int(rest[0]) if rest else 32
    more = dict(param.split("=", 1) for param in params)
    preset = more.pop("preset", None)
    return Settings(
        codec=codec, profile=profile, period=period, crf=crf, preset=preset, params=more
    ).arguments()


def encode(clip: Path, setting: str, crf: float, target: Path, frames: int) -> None:
    """Encode a clip's first frames with the program."""
    subprocess.run(
        [
            *(str(find_program()), "-v", "error", "-nostdin", "-y", "-i", str(clip)),
            *("-map", "0:v:0", "-frames:v", str(frames), "-fps_mode", "passthrough"),
            *("-pix_fmt", "yuv420p", *arguments_of(setting, crf), str(target)),
        ],
        check=True,
    )


def encode_lerobot(clip: Path, target: Path, frames: int) -> None:
    """Encode a clip's first frames as LeRobot v3 does, with PyAV."""
    options = {"g": "2", "crf": "30", "preset": "12"}
    with av.open(str(clip)) as source, av.open(str(target), "w") as container:
        video = source.streams.video[0]
        rate = Fraction(video.average_rate or 30)
        stream = container.add_stream("libsvtav1", rate=rate, options=options)
        stream.width, stream.height, stream.pix_fmt = video.width, video.height, "yuv420p"
        for k, frame in enumerate(source.decode(video)):
            if k == frames:
                break
            frame = frame.reformat(format="yuv420p")
            frame.pts, frame.time_base, frame.pict_type = k, 1 / rate, 0
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def video_bytes(path: Path) -> int:
    """Bytes of the packets of the video, without the container."""
    with av.open(str(path)) as container:
        return sum(packet.size for packet in container.demux(video=0))


def rgb_frames(path: Path, frames: int) -> Iterable[np.ndarray]:
    """The first frames as RGB."""
    with av.open(str(path)) as container:
        for k, frame in enumerate(container.decode(video=0)):
            if k == frames:
                return
            yield frame.to_ndarray(format="rgb24")


def psnr(reference: Path, path: Path, frames: int) -> float:
    """PSNR in dB of RGB over all frames at once."""
    error, samples, count = 0.0, 0, 0
    pairs = zip(rgb_frames(reference, frames), rgb_frames(path, frames), strict=True)
    for first, second in pairs:
        difference = first.astype(np.int32) - second
        error += float(np.square(difference).sum())
        samples += difference.size
        count += 1
    assert count > 0
    return 10 * math.log10(255**2 * samples / error) if error else math.inf


def size_at(points: Sequence[Point], wanted: float) -> float | None:
    """The size at a PSNR, interpolated; None outside of the points."""
    ordered = sorted(points, key=lambda point: point.psnr)
    for low, high in itertools.pairwise(ordered):
        if low.psnr <= wanted <= high.psnr and high.psnr > low.psnr:
            share = (wanted - low.psnr) / (high.psnr - low.psnr)
            return math.exp(math.log(low.size) * (1 - share) + math.log(high.size) * share)
    return None


def decode_ms(path: str, seed: int = 0) -> float:
    """Milliseconds for a random frame, the mean of ten asked for one by one."""
    chosen = random.Random(seed)
    with VideoDecoder(path) as decoder:
        count = len(decoder)
        indices = [chosen.randrange(count) for _ in range(10)]
        decoder[0]
        begun = time.perf_counter()
        for index in indices:
            decoder[index]
        return (time.perf_counter() - begun) / len(indices) * 1e3


def measure_clip(
    clip: Path, settings: Sequence[str], crfs: Sequence[float], frames: int, folder: Path
) -> list[Outcome]:
    """All settings on one clip."""
    av1 = folder / "lerobot.mp4"
    encode_lerobot(clip, av1, frames)
    wanted, base = psnr(clip, av1, frames), video_bytes(av1)
    outcomes = [Outcome(clip.name, "lerobot-av1", wanted, base, 1.0, None)]
    for setting in settings:
        points: list[Point] = []
        # from the middle on, only as far as the wanted PSNR is not yet enclosed
        for crf in sorted(crfs, key=lambda crf: abs(crf - statistics.median(crfs))):
            if size_at(points, wanted) is not None and len(points) >= 4:
                break
            path = folder / f"{setting}-{crf:g}.mp4"
            encode(clip, setting, crf, path, frames)
            points.append(Point(crf, video_bytes(path), psnr(clip, path, frames), str(path)))
        size = size_at(points, wanted)
        near = min(points, key=lambda point: abs(point.psnr - wanted))
        ratio = None if size is None else size / base
        spent = decode_ms(near.path)
        outcomes.append(Outcome(clip.name, setting, wanted, size, ratio, spent))
        shown = "outside" if ratio is None else f"{ratio:.3f}"
        crf = near.crf
        print(
            f"{clip.name:36} {setting:16} {shown:>8} of LeRobot's {base / 1e3:.0f} kB at "
            f"{wanted:.2f} dB (crf near {crf:g}), {spent:.2f} ms a frame",
            flush=True,
        )
    return outcomes


def main() -> int:
    """Measure and print the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clips", nargs="+", type=Path)
    parser.add_argument(
        "--settings", nargs="+", default=["hevc-paper", "hevc-balanced", "h264-balanced"]
    )
    parser.add_argument("--crf", nargs="+", type=float, default=list(CRFS))
    parser.add_argument("--frames", type=int, default=10**9, help="of each clip, at most")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    os.environ["SVT_LOG"] = "1"  # errors only
    outcomes: list[Outcome] = []
    for clip in arguments.clips:
        with tempfile.TemporaryDirectory() as folder:
            outcomes += measure_clip(
                clip, arguments.settings, arguments.crf, arguments.frames, Path(folder)
            )
    print()
    for setting in arguments.settings:
        ratios = [o.ratio for o in outcomes if o.setting == setting and o.ratio is not None]
        times = [o.decode_ms for o in outcomes if o.setting == setting and o.decode_ms]
        if ratios:
            print(
                f"{setting:16} {statistics.mean(ratios):.3f} of LeRobot's size on {len(ratios)} "
                f"clips, {statistics.mean(times):.2f} ms a random frame"
            )
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(o) for o in outcomes], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
