"""A file encoded again so that any frame costs at most three pictures."""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sparseframes._decoder import VideoDecoder
from sparseframes.encode._check import check_ddra
from sparseframes.encode._period import choose_period
from sparseframes.encode._program import EncodeError, probe, run, whole_file
from sparseframes.encode._settings import Settings
from sparseframes.errors import SourceError, SparseError

FORMATS = {".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".mkv": "matroska"}
"""Names of files that can be written, and the program's formats for them."""

# frames of the source of which the cost is measured, for the amplification
SAMPLED = 64
# containers whose times start anywhere
CLOCKED = {"mpegts", "mpeg"}


@dataclass(frozen=True)
class TranscodeResult:
    """What a transcode did.

    Attributes:
        source, target: the files.
        frames: number of frames.
        period: frames from one anchor to the next.
        bytes_before, bytes_after: sizes of the files.
        amplification_before: pictures that a single frame of the source costs on average; None
            when the library can't tell.
        amplification_after: the same of the new file.
        psnr: of all planes in dB, infinite for equal ones; None unless asked for.
        ssim: of all planes; None unless asked for.
        seconds: how long it took.
    """

    source: str
    target: str
    frames: int
    period: int
    bytes_before: int
    bytes_after: int
    amplification_before: float | None
    amplification_after: float
    psnr: float | None
    ssim: float | None
    seconds: float

    @property
    def ratio(self) -> float:
        """Size of the new file over the old one's."""
        return self.bytes_after / self.bytes_before if self.bytes_before else 0.0


def transcode(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    codec: str = "hevc",
    period: int | Literal["auto"] = 32,
    crf: float | None = None,
    preset: str | None = None,
    threads: int | None = None,
    *,
    profile: str = "balanced",
    tune: str | None = None,
    pixel_format: str | None = None,
    idr: int = 0,
    params: dict[str, str] | None = None,
    force: bool = False,
    measure: bool = False,
    progress: Callable[[float], object] | None = None,
) -> TranscodeResult:
    """Encode a file again so that any frame costs at most three pictures.

    Frames, their times, rotation, colour tags, the audio and the metadata are those of the source,
    which stays as it is. The target is there whole or not at all, and its structure has been
    checked before it gets its name.

    Args:
        src: the file to read.
        dst: the file to write: .mp4, .m4v, .mov or .mkv.
        codec: "hevc" or "h264".
        period: frames from one anchor to the next, 2 to 128; "auto" tries some on a part of the
            file and takes the one with the least cost of size and decode time.
        crf: constant quality, smaller is better; None for the profile's.
        preset: the encoder's preset; None for the profile's.
        threads: threads of the encoder; None for its own choice.
        profile: "compact", "balanced" or "fast" (to decode).
        tune: the encoder's tune, "none" for none; None for the profile's.
        pixel_format: FFmpeg's name; None for the source's, or the nearest the encoder has.
        idr: every how many periods an IDR picture comes; 0 for the first frame only.
        params: more of the encoder's own parameters.
        force: overwrite dst.
        measure: compute PSNR and SSIM.
        progress: called with the share done, 0 to 1; what it raises stops the encoding.

    Raises:
        SourceError: src can't be read or holds no video.
        EncodeError: encoding failed, or dst exists and force is false.
        ProgramNotFoundError: the encoder program is not built.
        ArgumentError: an option has a value that is not allowed.
    """
    begun = time.monotonic()
    source, target = os.fspath(src), Path(dst)
    settings = Settings(
        codec=codec,
        period=32 if period == "auto" else period,
        profile=profile,
        crf=crf,
        preset=preset,
        tune=tune,
        threads=threads,
        pixel_format=pixel_format,
        idr=idr,
        params=params or {},
    )
    form = container(target)
    facts = probe(source)
    video = next((s for s in facts["streams"] if _is_video(s)), None)
    if video is None:
        raise SourceError(f"{source}: no video in it", file=source)
    if target.exists() and target.samefile(source):
        raise EncodeError(f"{target}: source and target are the same file", file=source)
    total = _duration(facts, video)
    if period == "auto":
        chosen, _ = choose_period(source, settings, video, total)
        settings = dataclasses.replace(settings, period=chosen)

    def report(state: dict[str, str]) -> None:
        if progress is None:
            return
        done = state.get("out_time_us", "")
        if total and done.lstrip("-").isdigit():
            progress(min(max(int(done) / 1e6 / total, 0.0), 1.0))

    with whole_file(target, force=force) as part:
        arguments = [
            *_input_arguments(facts),
            *("-i", f"file:{source}", "-map", f"0:{video['index']}", "-map", "0:a?"),
            *("-map_metadata", "0", "-c:a", "copy", "-fps_mode", "passthrough"),
            *("-enc_time_base:v", "demux"),
            *settings.arguments(),
            *odd_size_arguments(video, settings),
            *output_arguments(form, codec, str(video.get("time_base", ""))),
            f"file:{part}",
        ]
        run(arguments, source, report)
        checked = check_ddra(part)
        if not checked.ok:
            first = checked.violations[0]
            raise EncodeError(f"{source}: the result is not DDRA: {first}", file=source)
        psnr, ssim = compare(source, str(part), video["index"]) if measure else (None, None)
    return TranscodeResult(
        source=source,
        target=str(target),
        frames=checked.frames,
        period=settings.period,
        bytes_before=Path(source).stat().st_size,
        bytes_after=target.stat().st_size,
        amplification_before=amplification(source),
        amplification_after=checked.mean,
        psnr=psnr,
        ssim=ssim,
        seconds=time.monotonic() - begun,
    )


def container(target: Path) -> str:
    """The program's format for a file name."""
    form = FORMATS.get(target.suffix.lower())
    if form is None:
        raise EncodeError(f"{target}: the name must end in {', '.join(FORMATS)}", file=str(target))
    return form


def output_arguments(form: str, codec: str, time_base: str = "") -> list[str]:
    """The arguments for the file that is written."""
    arguments = ["-f", form]
    if form in ("mp4", "mov"):
        scale = time_base.removeprefix("1/")
        if scale.isdecimal() and 0 < int(scale) <= 10**6:
            # the edit list, which tells where the video begins, is to be as fine as its times
            factor = -(-1000 // int(scale))
            arguments += ["-movie_timescale", str(factor * int(scale))]
        arguments += ["-movflags", "+faststart"]
        if codec == "hevc":
            # some players take no other
            arguments += ["-tag:v", "hvc1"]
    return arguments


def odd_size_arguments(video: dict[str, Any], settings: Settings) -> list[str]:
    """What keeps an odd size: chroma that is not subsampled."""
    odd = int(video["width"]) % 2 or int(video["height"]) % 2
    if not odd or settings.pixel_format:
        return []
    deep = str(video.get("pix_fmt", "")).endswith(("le", "be"))
    return ["-pix_fmt", "yuv444p10le" if deep else "yuv444p"]


def amplification(source: str) -> float | None:
    """Pictures that a single frame costs, on average over some; None if that can't be told."""
    try:
        with VideoDecoder(source) as decoder:
            count = len(decoder)
            if not decoder._info.sparse or not count:
                return None
            frames = np.unique(np.linspace(0, count - 1, min(count, SAMPLED)).astype(int))
            costs = [len(decoder.plan([int(k)]).reconstruct) for k in frames]
    except SparseError:
        return None
    return sum(costs) / len(costs)


def compare(reference: str, distorted: str, stream: int = 0) -> tuple[float, float]:
    """PSNR and SSIM of all planes between two files with the same frames."""
    graph = (
        "[0:v:0]settb=AVTB,setpts=N[a0];"
        f"[1:{stream}]settb=AVTB,setpts=N[b0];[a0]split[a1][a2];[b0]split[b1][b2];"
        "[a1][b1]psnr[p];[a2][b2]ssim[s]"
    )
    text = run(
        [
            *("-v", "info", "-noautorotate", "-i", f"file:{distorted}"),
            *("-noautorotate", "-i", f"file:{reference}"),
            *("-filter_complex", graph, "-map", "[p]", "-map", "[s]"),
            *("-fps_mode", "passthrough", "-f", "null", "-"),
        ],
        reference,
    )
    psnr = re.search(r"PSNR .*average:(\S+)", text)
    ssim = re.search(r"SSIM .*All:(\S+)", text)
    if not psnr or not ssim:
        raise EncodeError(f"{reference}: the program gave no PSNR and SSIM", file=reference)
    return float(psnr[1]), float(ssim[1])


def _is_video(stream: dict[str, Any]) -> bool:
    picture = stream.get("disposition", {}).get("attached_pic", 0)
    return stream.get("codec_type") == "video" and not picture and bool(stream.get("width"))


def _input_arguments(facts: dict[str, Any]) -> list[str]:
    # a damaged source must not become an undamaged file with other frames
    arguments = ["-xerror", "-noautorotate"]
    names = set(str(facts["format"].get("format_name", "")).split(","))
    if not names & CLOCKED:
        arguments.append("-copyts")
    return arguments


def _duration(facts: dict[str, Any], video: dict[str, Any]) -> float:
    for place in (video, facts["format"]):
        try:
            return float(place["duration"])
        except (KeyError, ValueError):
            continue
    try:
        return int(video["nb_frames"]) / float(Fraction(video["avg_frame_rate"]))
    except (KeyError, ValueError, ZeroDivisionError):
        return 0.0
