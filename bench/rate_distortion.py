"""Size at equal quality: DDRA profiles against LeRobot's setting and others, clip by clip.

Each setting encodes the first frames of each clip at four qualities or more around the one where
its PSNR is that of LeRobot v3's default (libsvtav1 -g 2 -crf 30 -preset 12, by the SVT-AV1 in
PyAV's wheel, which is what LeRobot's users have). Its size at that PSNR is interpolated, in the
logarithm of the size, between the two encodes around it; nothing is extrapolated. The PSNR is that
of RGB, over all frames at once; the size is that of the packets, without the container.

Decode time is CPU time for a random frame asked for alone, by sparseframes: for ten frames, the
median of some rounds in which all settings of a clip take turns, interpolated likewise.

    python -m bench.rate_distortion run --work DIR --settings hevc-paper hevc-balanced
    python -m bench.rate_distortion time --work DIR
    python -m bench.rate_distortion report

`run` goes on where it was stopped: what is in docs/rate_distortion.json is not done again. The
report is the table docs/rate_distortion.md and the plot docs/rate_distortion.svg, which takes
matplotlib. Needs `make encoder` and PyAV.

A setting is a codec and a profile (hevc-balanced), with another period (hevc-balanced-16), with
more parameters of the encoder (hevc-balanced+preset=medium), or hevc-paper, h264-paper and jpeg.
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
import time
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from sparseframes import VideoDecoder, set_cache_budget
from sparseframes.encode import CODECS, Settings, find_program
from sparseframes.errors import SparseError

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
DOCS = ROOT / "docs"
JSON = DOCS / "rate_distortion.json"
PATTERNS = (
    "sim/*/*.mp4",
    "realworld/droid_*.mp4",
    "realworld/gr00t_*.mp4",
    "realworld/lerobot_*.mp4",
    "realworld/octo_*.mp4",
)
PAPER = {
    "hevc": "keyint=32:min-keyint=32:scenecut=0:open-gop=1:bframes=31:b-adapt=0:b-pyramid=0:"
    "rc-lookahead=40:ref=1",
    "h264": "keyint=32:min-keyint=32:scenecut=0:open-gop=1:bframes=31:b-adapt=0:b-pyramid=none:"
    "rc-lookahead=40:ref=1",
}
LEROBOT = "lerobot-av1"
DEFAULT = (
    *("hevc-paper", "hevc-balanced", "h264-paper", "h264-balanced", "jpeg"),
    *("hevc-fast", "h264-fast", "hevc-compact", "h264-compact"),
)
POINTS = 4  # encodes, at least
STEP = {"hevc": 2.0, "h264": 2.0, "jpeg": 1.5}  # of crf or JPEG's quantiser scale
FIRST = {"hevc": 22.0, "h264": 22.0, "jpeg": 4.0}
BEST, WORST = {"jpeg": 1.0}, {"jpeg": 31.0}
LEAST_FRAMES = 33  # shorter clips have no interval
READS = 10
ROUNDS = 3

Entry = dict[str, Any]


# -- encoding -----------------------------------------------------------------------------------


def family(setting: str) -> str:
    """What has qualities of one kind: hevc, h264 or jpeg."""
    return setting.partition("-")[0]


def arguments_of(setting: str, quality: float) -> list[str]:
    """The program's arguments for hevc-balanced, h264-fast-16, hevc-paper, hevc-fast+qcomp=0.7."""
    name, *params = setting.split("+")
    codec, _, rest = name.partition("-")
    profile, _, period = rest.partition("-")
    if codec == "jpeg":
        return [
            "-c:v",
            "mjpeg",
            "-pix_fmt",
            "yuvj420p",
            "-huffman",
            "optimal",
            "-qscale:v",
            f"{quality:g}",
            # a file's frame rate may be too coarse for its times
            "-enc_time_base:v",
            "demux",
        ]
    if profile == "paper":
        library = "x265" if codec == "hevc" else "x264"
        extra = ":log-level=error:pools=1" if codec == "hevc" else ""
        return [
            *("-pix_fmt", "yuv420p", "-c:v", CODECS[codec], "-preset", "medium"),
            *(
                "-threads:v",
                "1",
                "-crf",
                f"{quality:g}",
                f"-{library}-params",
                PAPER[codec] + extra,
            ),
        ]
    more = dict(param.split("=", 1) for param in params)
    settings = Settings(
        codec=codec,
        profile=profile,
        period=int(period or 32),
        crf=quality,
        preset=more.pop("preset", None),
        tune=more.pop("tune", None),
        threads=1,
        pixel_format="yuv420p",
        params=more,
    )
    return settings.arguments()


def encode(clip: Path, setting: str, quality: float, target: Path, frames: int) -> None:
    """Encode a clip's first frames with the program."""
    subprocess.run(
        [
            *(str(find_program()), "-v", "error", "-nostdin", "-y", "-threads", "1"),
            *("-i", str(clip), "-map", "0:v:0", "-frames:v", str(frames)),
            *("-fps_mode", "passthrough", *arguments_of(setting, quality), str(target)),
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


def psnr(reference: Sequence[np.ndarray], path: Path) -> float:
    """PSNR in dB of RGB over all frames at once."""
    error, samples = 0, 0
    for first, second in zip(reference, rgb_frames(path, len(reference)), strict=True):
        difference = (first.astype(np.int16) - second).ravel().astype(np.int32)
        error += int(np.dot(difference, difference))
        samples += difference.size
    return 10 * math.log10(255**2 * samples / error) if error else math.inf


# -- the size at a PSNR -------------------------------------------------------------------------


def enclosing(points: Sequence[Entry], wanted: float) -> tuple[Entry, Entry, float] | None:
    """The two encodes around a PSNR and how far it is from the first to the second."""
    ordered = sorted(points, key=lambda point: (point["psnr"], point["size"]))
    for low, high in itertools.pairwise(ordered):
        if low["psnr"] <= wanted <= high["psnr"] and high["psnr"] > low["psnr"]:
            return low, high, (wanted - low["psnr"]) / (high["psnr"] - low["psnr"])
    return None


def size_at(points: Sequence[Entry], wanted: float) -> float | None:
    """The size at a PSNR, interpolated; None outside of the points."""
    found = enclosing(points, wanted)
    if found is None:
        return None
    low, high, share = found
    return math.exp(math.log(low["size"]) * (1 - share) + math.log(high["size"]) * share)


def next_quality(points: Sequence[Entry], wanted: float, kind: str, start: float) -> float | None:
    """Where to encode next; None when it is enough. Smaller is better."""
    done = sorted(point["quality"] for point in points)
    step, best, worst = STEP[kind], BEST.get(kind, 0.0), WORST.get(kind, 51.0)
    if not done:
        return min(max(round(start), best), worst)
    down, up = max(done[0] - step, best), min(done[-1] + step, worst)
    if enclosing(points, wanted) is None:
        better = max(point["psnr"] for point in points) < wanted
        tried = down if better else up
        return None if tried in done else tried
    if len(points) >= POINTS:
        return None
    middle = statistics.mean(
        point["quality"]
        for point in enclosing(points, wanted)[:2]  # type: ignore[index]
    )
    sides = [quality for quality in (down, up) if quality not in done]
    return min(sides, key=lambda quality: abs(quality - middle)) if sides else None


# -- results ------------------------------------------------------------------------------------


class Results:
    """The file of results: for each clip, the PSNR to reach and what each setting gave."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data: dict[str, Any] = {"frames": 0, "clips": {}}
        if path.exists():
            self.data = json.loads(path.read_text())

    def clip(self, name: str) -> dict[str, Any]:
        return self.data["clips"].setdefault(name, {"settings": {}})

    def save(self) -> None:
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.data, indent=1, sort_keys=True) + "\n")
        part.replace(self.path)

    def guess(self, name: str, setting: str) -> float:
        """The quality to try first: from the clip's other settings, or from the other clips."""
        kind = family(setting)

        def reached(clip: dict[str, Any], same: bool) -> list[float]:
            found = []
            for other, entry in clip["settings"].items():
                if (other == setting) if same else (family(other) == kind):
                    around = enclosing(entry["points"], clip["psnr"])
                    if around:
                        low, high, share = around
                        found.append(low["quality"] * (1 - share) + high["quality"] * share)
            return found

        own = reached(self.clip(name), False)
        if own:
            return statistics.mean(own)
        others = [q for clip in self.data["clips"].values() for q in reached(clip, True)]
        return statistics.median(others) if others else FIRST[kind]


def file_of(work: Path, clip: str, setting: str, quality: float) -> Path:
    suffix = "mkv" if setting == "jpeg" else "mp4"
    return work / clip.replace("/", "_") / f"{setting}-{quality:g}.{suffix}"


def measure(results: Results, name: str, setting: str, frames: int, work: Path) -> None:
    """One setting on one clip, unless it is done."""
    clip, source = results.clip(name), CORPUS / name
    if setting in clip["settings"]:
        return
    folder = work / name.replace("/", "_")
    folder.mkdir(parents=True, exist_ok=True)
    reference = list(rgb_frames(source, frames))
    if len(reference) < LEAST_FRAMES:
        del results.data["clips"][name]
        return
    if "psnr" not in clip:
        av1 = folder / f"{LEROBOT}.mp4"
        encode_lerobot(source, av1, frames)
        clip.update(
            frames=len(reference),
            shape=list(reference[0].shape[:2]),
            psnr=psnr(reference, av1),
            size=video_bytes(av1),
        )
    wanted, start = clip["psnr"], results.guess(name, setting)
    points: list[Entry] = []
    begun = time.process_time() + sum(os.times()[2:4])
    while (quality := next_quality(points, wanted, family(setting), start)) is not None:
        path = file_of(work, name, setting, quality)
        encode(source, setting, quality, path, frames)
        point = {"quality": quality, "size": video_bytes(path), "psnr": psnr(reference, path)}
        points.append(point)
    spent = time.process_time() + sum(os.times()[2:4]) - begun
    clip["settings"][setting] = {"points": points}
    around = enclosing(points, wanted) or ()
    for point in points:
        if point not in around:
            file_of(work, name, setting, point["quality"]).unlink()
    results.save()
    size = size_at(points, wanted)
    shown = "outside" if size is None else f"{size / clip['size']:.3f}"
    print(
        f"{time.strftime('%H:%M')} {name:50} {setting:16} {shown:>8} of LeRobot's "
        f"{clip['size'] / 1e3:.0f} kB at {wanted:.2f} dB ({len(points)} encodes, {spent:.0f} s)",
        flush=True,
    )


# -- decode time --------------------------------------------------------------------------------


def decode_ms(path: Path) -> float:
    """Milliseconds of CPU for a random frame, the mean of ten asked for one by one."""
    chosen = random.Random(0)
    set_cache_budget(0)  # anchors of one request would serve another
    with VideoDecoder(str(path), threads=1) as decoder:
        indices = [chosen.randrange(len(decoder)) for _ in range(READS)]
        decoder.get_frames_at(indices[:1])
        begun = time.process_time()
        for index in indices:
            decoder.get_frame_at(index)
        return (time.process_time() - begun) / len(indices) * 1e3


def encode_missing(results: Results, name: str, settings: Sequence[str], work: Path) -> None:
    """Make the files around a clip's PSNR again where an earlier run's are not at hand."""
    clip, folder = results.clip(name), work / name.replace("/", "_")
    folder.mkdir(parents=True, exist_ok=True)
    av1 = folder / f"{LEROBOT}.mp4"
    if LEROBOT in settings and not av1.exists():
        encode_lerobot(CORPUS / name, av1, clip["frames"])
    for setting, entry in clip["settings"].items():
        for point in (enclosing(entry["points"], clip["psnr"]) or ())[:2]:
            path = file_of(work, name, setting, point["quality"])
            if setting in settings and not path.exists():
                encode(CORPUS / name, setting, point["quality"], path, clip["frames"])


def time_clip(
    results: Results, name: str, settings: Sequence[str], work: Path, again: bool
) -> None:
    """The decode time of settings of a clip, side by side, if one of them has none."""
    clip = results.clip(name)
    files: dict[str, tuple[list[Path], float]] = {}
    for setting, entry in clip["settings"].items():
        if setting not in settings:
            continue
        around = enclosing(entry["points"], clip["psnr"])
        if around:
            low, high, share = around
            paths = [file_of(work, name, setting, point["quality"]) for point in (low, high)]
            if all(path.exists() for path in paths):
                files[setting] = (paths, share)
    av1 = work / name.replace("/", "_") / f"{LEROBOT}.mp4"
    if av1.exists() and LEROBOT in settings:
        files[LEROBOT] = ([av1, av1], 0.0)
    timed = clip.setdefault("decode_ms", {})
    if not again and all(setting in timed for setting in files):
        return
    rounds: dict[str, list[float]] = {setting: [] for setting in files}
    for _ in range(ROUNDS):
        for setting, (paths, share) in files.items():
            try:
                first, second = (decode_ms(path) for path in paths)
            except SparseError as error:
                print(f"{name} {setting}: {error}", flush=True)
                continue
            rounds[setting].append(first * (1 - share) + second * share)
    print(f"{time.strftime('%H:%M')} {name:50} timed", flush=True)
    timed.update({setting: statistics.median(times) for setting, times in rounds.items() if times})
    results.save()


def main() -> int:
    """Measure, or report what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, default=JSON, help="the results")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("run", "time"):
        sub = commands.add_parser(command)
        sub.add_argument("--work", type=Path, required=True, help="folder for the encoded files")
        sub.add_argument("--clips", nargs="+", default=PATTERNS, help="patterns in the corpus")
        default = DEFAULT if command == "run" else (*DEFAULT, LEROBOT)
        sub.add_argument("--settings", nargs="+", default=default)
    commands.choices["run"].add_argument(
        "--frames", type=int, default=97, help="of each clip, at most"
    )
    commands.choices["time"].add_argument("--again", action="store_true", help="all of them")
    commands.choices["time"].add_argument(
        "--encode", action="store_true", help="make missing files again"
    )
    commands.add_parser("report")
    arguments = parser.parse_args()
    results = Results(arguments.json)
    if arguments.command == "report":
        from bench import rate_distortion_report

        rate_distortion_report.write(results.data, DOCS)
        return 0
    names = [
        str(path.relative_to(CORPUS))
        for pattern in arguments.clips
        for path in sorted(CORPUS.glob(pattern))
    ]
    os.environ["SVT_LOG"] = "1"  # errors only
    if arguments.command == "time":
        for name in names:
            if "psnr" in results.clip(name):
                if arguments.encode:
                    encode_missing(results, name, arguments.settings, arguments.work)
                time_clip(results, name, arguments.settings, arguments.work, arguments.again)
        return 0
    if results.data["frames"] not in (0, arguments.frames):
        print(f"the results are for {results.data['frames']} frames", file=sys.stderr)
        return 1
    results.data["frames"] = arguments.frames
    for setting in arguments.settings:
        for name in names:
            measure(results, name, setting, arguments.frames, arguments.work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
