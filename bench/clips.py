"""The clips of the comparison: those of the corpus beside the checkout, and what is made of them.

What is made stays in a folder, under names that tell how. Without the corpus, a clip of moving
shapes takes the place of the robot clips.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

import sparseframes
from sparseframes.cli import _clips
from sparseframes.encode import ProgramNotFoundError, find_program

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"

NATIVE = (
    "sim/native/aloha_ep00_top.mp4",
    "sim/native/aloha_ep01_right_wrist.mp4",
    "sim/native/robosuite_ep00_agentview.mp4",
    "realworld/droid_36906660_Wed_Aug_23_21_50_45_2023_27085680.mp4",
    "realworld/octo_out_ours_ur5_tiger.mp4",
    "realworld/gr00t_robot_sim_episode_000000.mp4",
)
# masters that HEVC clips with GOP 250 are made of: data sets hold few
HEVC_OF = ("aloha_ep00_top", "aloha_ep03_right_wrist", "robosuite_ep01_agentview")
# masters of which LeRobot's layout is there, for all that is compared with it
MASTERS = ("aloha_ep00_top", "robosuite_ep00_agentview")
LEROBOT = {"g": "2", "crf": "30", "preset": "12"}
HEVC = {"preset": "medium", "crf": "22", "x265-params": "keyint=250:log-level=none"}
H264 = {"preset": "medium", "crf": "20", "g": "250"}
# At preset 12, which LeRobot uses, closures have 8 pictures in the mean, at 8 and below 30: then
# there is half as much to save.
AV1_LONG = {"g": "120", "crf": "30", "preset": "12"}
EPISODES = 40
# encodes to find a quality by, and what is near enough to it, in dB
TRIALS, CLOSE = 5, 0.2

GROUPS = (
    "native-h264",
    "native-hevc",
    "ddra",
    "ddra-fast",
    "ddra-idr",
    "lerobot",
    "lerobot-joined",
    "av1-long",
    "jpeg",
)

DDRA = {"ddra", "ddra-fast", "ddra-idr"}

Say = Callable[[str], object]


@dataclass
class Clip:
    """One file, or folder of JPEG files, of the comparison."""

    name: str
    group: str
    """one of `GROUPS`"""
    path: Path
    frames: int = 0
    codec: str = ""
    size: str = ""
    bytes: int = 0
    master: str = ""
    setting: str = ""
    psnr: float | None = None
    """RGB PSNR against the master, where that is what clips are compared at"""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def payload(self) -> float:
        """Bytes a frame."""
        return self.bytes / self.frames


def rgb(path: Path, limit: int | None = None) -> Iterator[np.ndarray]:
    """The frames of a file as RGB, by PyAV."""
    with av.open(str(path)) as container:
        container.streams.video[0].thread_count = 1
        for k, frame in enumerate(container.decode(video=0)):
            if k == limit:
                return
            yield frame.to_ndarray(format="rgb24")


class Catalogue:
    """Finds and makes the clips.

    Attributes:
        missing: groups that can't be had, with the reason.
    """

    def __init__(
        self,
        folder: Path,
        quick: bool = False,
        groups: Collection[str] = GROUPS,
        corpus: Path = CORPUS,
    ) -> None:
        self.folder = folder
        self.groups = groups
        self.quick = quick
        self.corpus = corpus
        self.missing: dict[str, str] = {}
        self.has_corpus = not quick and (corpus / "sim" / "native").is_dir()
        folder.mkdir(parents=True, exist_ok=True)

    def all(self, say: Say = print) -> list[Clip]:
        """All clips of the groups that can be had."""
        clips = self._native(say) if "native-h264" in self.groups else []
        clips += self._hevc(say) if "native-hevc" in self.groups else []
        clips += self._layouts(say)
        for clip in clips:
            if clip.group != "jpeg":
                _look(clip)
        return clips

    # -- sources ----------------------------------------------------------------------------

    def _master(self, stem: str, say: Say) -> Path:
        path = self.corpus / "sim" / "master" / f"{stem}.mp4"
        if self.has_corpus and path.exists():
            return path
        size, frames = ((96, 64), 70) if self.quick else ((_clips.WIDTH, _clips.HEIGHT), 300)
        return self._once(
            f"shapes_{size[0]}x{size[1]}.mp4",
            lambda target: encode(
                (shape(k, size) for k in range(frames)), target, "libx264", {"crf": "8"}
            ),
            say,
        )

    def _masters(self, names: tuple[str, ...], say: Say) -> dict[str, Path]:
        names = names if self.has_corpus else ("shapes",)
        return {name: self._master(name, say) for name in names}

    def _native(self, say: Say) -> list[Clip]:
        if self.has_corpus:
            return [
                Clip(path.stem, "native-h264", path, setting="as it is")
                for name in NATIVE
                if (path := self.corpus / name).exists()
            ]
        clips = []
        for name, master in self._masters(("",), say).items():
            path = self._encoded(name, "h264_gop250", master, "libx264", H264, say)
            clips.append(Clip(path.stem, "native-h264", path, setting=text(H264)))
        return clips

    def _hevc(self, say: Say) -> list[Clip]:
        clips = []
        for name, master in self._masters(HEVC_OF, say).items():
            path = self._encoded(name, "hevc_gop250", master, "libx265", HEVC, say)
            clips.append(Clip(path.stem, "native-hevc", path, setting=f"x265 {text(HEVC)}"))
        return clips

    # -- layouts at equal quality -----------------------------------------------------------

    def _layouts(self, say: Say) -> list[Clip]:
        clips: list[Clip] = []
        wanted = {group for group in self.groups if not group.startswith("native")}
        try:
            find_program()
        except ProgramNotFoundError:
            if wanted & DDRA:
                self.missing["ddra"] = "the encoder program is not built: run `make encoder`"
            wanted -= DDRA
        if not wanted:
            return clips
        for name, master in self._masters(MASTERS, say).items():
            lerobot = self.corpus / "sim" / "lerobot_av1" / f"{name}.mp4"
            if not (self.has_corpus and lerobot.exists()):
                lerobot = self._encoded(name, "lerobot", master, "libsvtav1", LEROBOT, say)
            quality = self._psnr(master, lerobot)
            common = {"master": name, "psnr": quality}
            clips.append(
                Clip(f"{name}_lerobot", "lerobot", lerobot, setting=text(LEROBOT), **common)
            )
            if "lerobot-joined" in wanted and not any(c.group == "lerobot-joined" for c in clips):
                clips.append(self._joined(name, lerobot, say))
            if "av1-long" in wanted:
                path = self._encoded(name, "av1_g120_p12", master, "libsvtav1", AV1_LONG, say)
                clip = Clip(path.stem, "av1-long", path, master=name, setting=text(AV1_LONG))
                clips.append(clip)
            if "jpeg" in wanted:
                clips.append(self._jpeg(name, master, quality, say))
            if wanted & DDRA:
                clips += self._ddra(name, master, quality, say)
        return [clip for clip in clips if clip.group in wanted]

    def _joined(self, name: str, lerobot: Path, say: Say) -> Clip:
        """One file of many episodes, as LeRobot v3 has them: the same one again and again."""
        path = self._once(
            f"{name}_{EPISODES}_episodes.mp4", lambda target: join(lerobot, target, EPISODES), say
        )
        clip = Clip(path.stem, "lerobot-joined", path, master=name)
        clip.setting = f"{lerobot.name}, {EPISODES} times"
        clip.facts["reference"] = str(lerobot)
        return clip

    def _ddra(self, name: str, master: Path, quality: float, say: Say) -> list[Clip]:
        """DDRA files at LeRobot's quality; and with T = 8 for what one frame costs."""
        wanted: list[tuple[str, str, str, int, int]] = [
            ("ddra", "hevc", "balanced", 32, 0),
            ("ddra", "hevc", "fast", 32, 0),
            ("ddra", "h264", "balanced", 32, 0),
            ("ddra", "h264", "fast", 32, 0),
            ("ddra-idr", "h264", "balanced", 8, 1),
            ("ddra-idr", "hevc", "balanced", 8, 1),
            ("ddra", "h264", "balanced", 8, 0),
            ("ddra", "hevc", "balanced", 8, 0),
            ("ddra-fast", "h264", "fast", 8, 0),
            ("ddra-fast", "hevc", "fast", 8, 0),
        ]
        if self.quick:
            wanted = wanted[2:3]
        clips = []
        for group, codec, profile, period, idr in wanted:
            if group not in self.groups:
                continue
            stem = f"{name}_ddra_{codec}_{profile}_t{period}" + (f"_idr{idr}" if idr else "")
            # an IDR picture each period is for other readers: they seek to those alone
            crf = 20.0
            if period == 32:  # what is compared at equal quality
                crf = self._crf(stem, master, codec, profile, period, quality, say)

            def make(target: Path, c: Any = (codec, profile, period, idr, crf)) -> None:
                sparseframes.transcode(
                    master, target, c[0], c[2], c[4], threads=1, profile=c[1], idr=c[3]
                )

            path = self._once(f"{stem}.mp4", make, say)
            setting = f"{codec} {profile}, T={period}, crf {crf:g}" + (
                f", idr={idr}" if idr else ""
            )
            clip = Clip(stem, group, path, master=name, setting=setting)
            clip.facts = {"period": period, "profile": profile, "crf": crf, "codec": codec}
            clip.psnr = self._psnr(master, path)
            clips.append(clip)
        return clips

    def _crf(
        self,
        stem: str,
        master: Path,
        codec: str,
        profile: str,
        period: int,
        wanted: float,
        say: Say,
    ) -> float:
        """The crf at which the file has a PSNR, or a little more."""
        note = self.folder / f"{stem}.crf"
        if note.exists():
            return float(note.read_text())
        if self.quick:
            return 23.0
        say(f"finding the crf of {stem}")
        points: dict[float, float] = {}
        crf = 20.0
        while crf not in points and len(points) < TRIALS:
            trial = self.folder / f"trial-{os.getpid()}.mp4"
            try:
                sparseframes.transcode(
                    master, trial, codec, period, crf, threads=1, profile=profile, force=True
                )
                points[crf] = psnr(master, trial)
            finally:
                trial.unlink(missing_ok=True)
            if 0 <= points[crf] - wanted <= CLOSE:
                break
            # by the slope between the two nearest, aiming a little above
            near = sorted(points, key=lambda tried: abs(points[tried] - wanted))[:2]
            slope = -0.7
            if len(near) > 1:
                slope = (points[near[1]] - points[near[0]]) / (near[1] - near[0])
            crf = near[0] + (wanted + CLOSE / 2 - points[near[0]]) / min(slope, -0.2)
            crf = round(min(max(crf, 8), 40) * 10) / 10
        enough = [tried for tried in points if points[tried] >= wanted]
        crf = max(enough) if enough else min(points)
        note.write_text(f"{crf:g}\n")
        return crf

    def _jpeg(self, name: str, master: Path, wanted: float, say: Say) -> Clip:
        """A folder of JPEG files, one a frame, at the lowest quality with that PSNR."""
        folder = self.folder / f"{name}_jpeg"
        note = folder / "quality"
        if not note.exists():
            say(f"writing {folder.name}")
            folder.mkdir(exist_ok=True)
            quality = jpeg_quality(list(rgb(master, 12)), wanted)
            for k, frame in enumerate(rgb(master)):
                (folder / f"{k:06d}.jpg").write_bytes(jpeg(frame, quality))
            note.write_text(f"{quality}\n")
        files = sorted(folder.glob("*.jpg"))
        clip = Clip(folder.name, "jpeg", folder, len(files), "jpeg", master=name)
        clip.bytes = sum(file.stat().st_size for file in files)
        clip.setting = f"quality {note.read_text().strip()}, 4:2:0"
        clip.facts["reference"] = str(master)
        return clip

    # -- making -----------------------------------------------------------------------------

    def _once(self, name: str, make: Callable[[Path], Any], say: Say) -> Path:
        path = self.folder / name
        if not path.exists():
            say(f"making {name}")
            part = path.with_name(f".{os.getpid()}.{name}")
            try:
                make(part)
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
        return path

    def _encoded(
        self, name: str, kind: str, master: Path, encoder: str, options: dict[str, str], say: Say
    ) -> Path:
        return self._once(
            f"{name}_{kind}.mp4", lambda path: encode(rgb(master), path, encoder, options), say
        )

    def _psnr(self, master: Path, path: Path) -> float:
        note = self.folder / f"{path.stem}-{path.stat().st_size}.psnr"
        if not note.exists():
            note.write_text(f"{psnr(master, path):.3f}\n")
        return float(note.read_text())


def psnr(reference: Path, path: Path, limit: int | None = None) -> float:
    """PSNR in dB of RGB over all frames at once, or over the first ones."""
    error, samples = 0.0, 0
    for first, second in zip(rgb(reference, limit), rgb(path, limit), strict=True):
        difference = first.astype(np.int32) - second
        error += float(np.square(difference).sum())
        samples += difference.size
    return 10 * math.log10(255**2 * samples / error) if error else math.inf


def text(options: dict[str, str]) -> str:
    """Options in one line."""
    return " ".join(f"{key}={value}" for key, value in options.items())


def shape(number: int, size: tuple[int, int]) -> np.ndarray:
    """A picture of moving shapes, smaller ones cut out of the whole."""
    noise = np.random.default_rng(1).integers(0, 8, (_clips.HEIGHT, _clips.WIDTH, 1), np.uint8)
    picture = _clips.picture(number, noise)
    top, left = (_clips.HEIGHT - size[1]) // 2, (_clips.WIDTH - size[0]) // 2
    return np.ascontiguousarray(picture[top : top + size[1], left : left + size[0]])


def encode(
    frames: Iterator[np.ndarray], target: Path, encoder: str, options: dict[str, str]
) -> None:
    """Encode RGB pictures as mp4 with PyAV's encoder."""
    os.environ.setdefault("SVT_LOG", "1")  # errors only
    with av.open(str(target), "w", format="mp4") as container:
        stream: Any = container.add_stream(encoder, rate=30, options=options)
        stream.pix_fmt = "yuv420p"
        stream.codec_context.thread_count = 1
        for k, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            if k == 0:
                stream.width, stream.height = frame.width, frame.height
            frame.pts, frame.time_base = k, Fraction(1, 30)
            container.mux(stream.encode(frame.reformat(format="yuv420p")))
        container.mux(stream.encode(None))


def join(source: Path, target: Path, times: int) -> None:
    """The packets of a file several times over, as one mp4."""
    with av.open(str(target), "w", format="mp4") as container:
        stream: Any = None
        begin = 0
        for _ in range(times):
            with av.open(str(source)) as file:
                video = file.streams.video[0]
                if stream is None:
                    stream = container.add_stream_from_template(video, opaque=True)
                end = begin
                for packet in file.demux(video):
                    if packet.dts is None:
                        continue
                    packet.pts, packet.dts = packet.pts + begin, packet.dts + begin
                    end = max(end, packet.pts + packet.duration)
                    packet.stream = stream
                    container.mux(packet)
                begin = end


def jpeg(frame: np.ndarray, quality: int) -> bytes:
    """One picture as JPEG, 4:2:0."""
    import io

    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, "JPEG", quality=quality, subsampling=2)
    return buffer.getvalue()


def jpeg_quality(frames: list[np.ndarray], wanted: float) -> int:
    """The lowest quality at which the pictures have a PSNR, at most 98."""
    import io

    from PIL import Image

    for quality in range(40, 99, 2):
        error = 0.0
        for frame in frames:
            decoded = np.asarray(Image.open(io.BytesIO(jpeg(frame, quality)))).astype(np.int32)
            error += float(np.square(decoded - frame).mean()) / len(frames)
        if error == 0 or 10 * math.log10(255**2 / error) >= wanted:
            return quality
    return 98


def _look(clip: Clip) -> None:
    """Fill in what the file says of itself."""
    with av.open(str(clip.path)) as container:
        video = container.streams.video[0]
        keys, frames, size = [], 0, 0
        for packet in container.demux(video):
            if packet.size:
                if packet.is_keyframe:
                    keys.append(frames)
                frames += 1
                size += packet.size
        context = video.codec_context
        clip.codec, clip.size = context.name, f"{context.width}x{context.height}"
        clip.codec = clip.codec.removeprefix("lib").replace("dav1d", "av1")
        clip.facts["keys"] = len(keys)
        clip.facts["longest_gop"] = max(
            b - a for a, b in zip(keys, [*keys[1:], frames], strict=True)
        )
        clip.facts["pix_fmt"] = context.pix_fmt
    clip.frames, clip.bytes = frames, size
