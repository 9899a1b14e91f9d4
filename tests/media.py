"""Small inputs for the tests, made with PyAV's encoders.

Each picture carries its number as eight stripes in its top 16 rows, so that a test knows which
frame it was given without decoding the file a second time; see `number_of`.
"""

from __future__ import annotations

import multiprocessing
import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

WIDTH, HEIGHT, FRAMES, FPS = 128, 96, 90, 30
STRIPES = 16

MAKERS: dict[str, Callable[[Path, Path], None]] = {}

# Inputs whose linear decode is clean and shows pictures 0, 1, 2, ... in this order.
IN_ORDER = [
    "pyramid.mp4",
    "onekey.mp4",
    "nobframes.mp4",
    "opengop.mp4",
    "slices.mp4",
    "intra_refresh.mp4",
    "mbaff.mp4",
    "hevc_opengop.mp4",
    "hevc_radl.mp4",
    "noedit.mp4",
    "vfr.mp4",
    "pyramid.ts",
    "pyramid.mkv",
    "pyramid.264",
    "duppts.mkv",
    "fragmented.mp4",
    "faststart.mp4",
    "h264_10bit.mp4",
    "hevc_10bit.mp4",
    "h264_gray.mp4",
    "hevc_gray12.mp4",
    "h264_444_129x97.mp4",
    "h264_130x98.mp4",
    "h264_128x68.mp4",
    "oneframe.mp4",
    "twovideo.mp4",
]

# The same of AV1.
AV1 = [
    "av1_pyramid.mp4",
    "av1_pyramid.mkv",
    "av1_pyramid.webm",
    "av1_pyramid.ivf",
    "av1_pyramid.obu",
    "av1_annexb.obu",
    "av1_g2.mp4",
    "av1_gop.mp4",
    "av1_10bit.mp4",
    "av1_low_delay.mp4",
    "av1_sound.mp4",
]

# Codecs without closures, read from the last key frame.
OTHER_CODECS = ["mpeg4.avi", "ffv1.mkv", "vp9.webm", "mjpeg.avi"]


# -- pictures -----------------------------------------------------------------------------------


def picture(number: int, width: int = WIDTH, height: int = HEIGHT) -> np.ndarray:
    """RGB picture [H, W, 3] with its number on top of gradients that slide and a block."""
    x = np.arange(width)
    image = np.empty((height, width, 3), np.uint8)
    image[..., 0] = (3 * x + 5 * number) % 256
    image[..., 1] = ((2 * np.arange(height) + 3 * number) % 256)[:, None]
    image[..., 2] = (x // 4 * 17 + number) % 200
    left = (7 * number) % (width - 24)
    image[STRIPES + 8 : STRIPES + 28, left : left + 24] = (250, 240, (number * 40) % 256)
    bits = (number >> (x * 8 // width)) & 1
    image[:STRIPES] = np.where(bits, 235, 20)[:, None]
    return image


def number_of(pixels: Any) -> int:
    """The number in a picture: RGB or gray [H, W, C], or luma [H, W] of any depth."""
    values = np.asarray(pixels, np.float64)
    if values.ndim == 3:
        values = values.mean(axis=2)
    height, width = values.shape
    row = values[max(2, 6 * height // HEIGHT)]
    stripes = [row[int((k + 0.5) * width / 8)] for k in range(8)]
    middle = 0.5 * float(np.iinfo(np.asarray(pixels).dtype).max)
    if np.asarray(pixels).dtype == np.uint16:
        # the depth isn't told: dark and bright stripes are far apart
        middle = 0.5 * (values.min() + values.max())
    return sum(1 << k for k in range(8) if stripes[k] > middle)


# -- writing ------------------------------------------------------------------------------------


def encode(
    path: Path,
    encoder: str = "libx264",
    *,
    numbers: Iterable[int] = range(FRAMES),
    size: tuple[int, int] = (WIDTH, HEIGHT),
    pix_fmt: str = "yuv420p",
    pts: Sequence[int] | None = None,
    container_options: dict[str, str] | None = None,
    start: int = 0,
    intra: Collection[int] = (),
    draw: Callable[[int, int, int], np.ndarray] = picture,
    **options: str,
) -> None:
    """Encode pictures; pts in 1/30 s. The places in intra become I pictures, perhaps no IDR."""
    if encoder == "libx265":
        options["x265-params"] = "log-level=none:" + options.get("x265-params", "keyint=30")
    video = (encoder, numbers, size, pix_fmt, pts, start, options, intra, draw)
    if encoder == "libsvtav1":
        watched(_write_video, path, container_options, *video)
    else:
        _write_video(path, container_options, *video)


def _write_video(path: Path, container_options: dict[str, str] | None, *video: Any) -> None:
    with av.open(str(path), "w", options=container_options or {}) as container:
        add_video(container, *video)()


def watched(function: Callable[..., None], *arguments: Any) -> None:
    """Call it in a process of its own, again if it doesn't come to an end.

    SVT-AV1's threads have been seen to wait for one another for ever, once in some thousand
    encodes.
    """
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    for _ in range(3):
        process = processes.Process(target=function, args=arguments)
        process.start()
        process.join(60)
        if process.exitcode is not None:
            break
        process.kill()
        process.join()
    assert process.exitcode == 0, f"{function.__name__}: exit status {process.exitcode}"


def add_video(
    container: Any,
    encoder: str,
    numbers: Iterable[int],
    size: tuple[int, int],
    pix_fmt: str,
    pts: Sequence[int] | None,
    start: int,
    options: dict[str, str],
    intra: Collection[int] = (),
    draw: Callable[[int, int, int], np.ndarray] = picture,
) -> Callable[[], None]:
    """Add a stream; the returned function writes it."""
    if encoder == "libsvtav1":
        few_threads = [options.get("svtav1-params"), "lp=1"]
        options = {**options, "svtav1-params": ":".join(filter(None, few_threads))}
    stream = container.add_stream(encoder, rate=FPS, options=options)
    stream.width, stream.height = size
    stream.pix_fmt = pix_fmt
    stream.time_base = stream.codec_context.time_base = Fraction(1, FPS)
    stream.codec_context.thread_count = 1

    def write() -> None:
        for k, number in enumerate(numbers):
            frame = av.VideoFrame.from_ndarray(draw(number, *size), format="rgb24")
            frame = frame.reformat(format=pix_fmt)
            frame.pts = start + (k if pts is None else pts[k])
            frame.time_base = Fraction(1, FPS)
            if k in intra:
                frame.pict_type = av.video.frame.PictureType.I
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))

    return write


def remux(
    source: Path,
    path: Path,
    edit: Callable[[int, Any], Any] = lambda _, packet: packet,
    **options: str,
) -> None:
    """Copy the first video stream; edit(number, packet) returns the packet to write, or None."""
    with av.open(str(source)) as read, av.open(str(path), "w", options=options) as container:
        stream = container.add_stream_from_template(read.streams.video[0])
        for number, packet in enumerate(read.demux(read.streams.video[0])):
            if packet.size == 0:
                continue
            packet = edit(number, packet)
            if packet is not None:
                packet.stream = stream
                container.mux(packet)


def patch_box(data: bytes, kind: bytes, offset: int, values: bytes) -> bytes:
    """Overwrite bytes of the first box of a kind, at an offset from its start."""
    at = data.index(kind) - 4 + offset
    return data[:at] + values + data[at + len(values) :]


def make(name: str, folder: Path) -> Path:
    """The path of an input, which is made if it is not there."""
    path = folder / name
    if not path.exists():
        MAKERS[name](path, folder)
    return path


def maker(name: str) -> Callable[[Callable[[Path, Path], None]], Callable[[Path, Path], None]]:
    """Name the input that a function makes."""

    def add(function: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
        MAKERS[name] = function
        return function

    return add


def encoded(name: str, *arguments: Any, **options: Any) -> None:
    """An input that one call of `encode` makes."""
    MAKERS[name] = lambda path, _: encode(path, *arguments, **options)


# -- structure ----------------------------------------------------------------------------------

# B pictures that are references, three key frames
encoded("pyramid.mp4", **{"x264-params": "keyint=30:scenecut=0:bframes=3:b-pyramid=normal:ref=4"})
# one key frame at the start
encoded("onekey.mp4", **{"x264-params": "keyint=infinite:scenecut=0:bframes=3"})
# every picture is a reference
encoded("nobframes.mp4", bf="0", g="30")
# recovery points instead of IDR: pictures shown before them refer to the group before
encoded(
    "opengop.mp4",
    **{"x264-params": "open-gop=1:keyint=24:min-keyint=24:scenecut=0:bframes=3"},
)
# packets far longer than what a header pass reads of them
encoded("large.mp4", numbers=range(12), size=(640, 480), **{"x264-params": "qp=2:keyint=12"})
# four slices a picture, weighted prediction, long reference lists
encoded(
    "slices.mp4",
    **{"x264-params": "keyint=30:slices=4:weightp=2:ref=8:bframes=6:b-pyramid=strict"},
)
# one IDR, then a column of intra blocks that moves
encoded("intra_refresh.mp4", **{"x264-params": "intra-refresh=1:keyint=20:bframes=0"})
# interlaced: frame and field macroblocks in one picture
encoded("mbaff.mp4", flags="+ildct+ilme", **{"x264-params": "tff=1:keyint=30"})
# CRA pictures with leading pictures that are skipped when decoding starts there
encoded(
    "hevc_opengop.mp4",
    "libx265",
    **{"x265-params": "open-gop=1:keyint=24:min-keyint=24:scenecut=0:bframes=4"},
)
# IDR pictures with leading pictures that can be decoded
encoded(
    "hevc_radl.mp4",
    "libx265",
    **{"x265-params": "open-gop=0:radl=2:keyint=24:min-keyint=24:scenecut=0:bframes=4"},
)
# a single frame
encoded("oneframe.mp4", numbers=[0])


@maker("twovideo.mp4")
def _two_video(path: Path, _: Path) -> None:
    # sound first, then two video streams of different sizes; the second shows 100, 101, ...
    with av.open(str(path), "w") as container:
        sound = add_sound(container)
        first = add_video(container, "libx264", range(30), (128, 96), "yuv420p", None, 0, {})
        second = add_video(container, "libx264", range(100, 130), (64, 64), "yuv420p", None, 0, {})
        sound()
        first()
        second()


def add_sound(container: Any) -> Callable[[], None]:
    """Add one second of sound; the returned function writes it."""
    stream = container.add_stream("aac", rate=44100, layout="mono")

    def write() -> None:
        for k in range(43):
            wave = np.sin((np.arange(1024) + 1024 * k) / 20).astype(np.float32)[None]
            frame = av.AudioFrame.from_ndarray(wave, format="fltp", layout="mono")
            frame.sample_rate = 44100
            frame.pts, frame.time_base = 1024 * k, Fraction(1, 44100)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))

    return write


# -- timestamps ---------------------------------------------------------------------------------

# gaps of one, two and three thirtieths
VFR_PTS = np.cumsum([0] + [1 + (k % 7 == 3) + (k % 5 == 0) for k in range(FRAMES - 1)]).tolist()
encoded("vfr.mp4", pts=VFR_PTS, g="20")
# no edit list: the first frame is shown after 0
encoded("noedit.mp4", g="30", container_options={"use_editlist": "0"})


@maker("editlist.mp4")
def _edit_list(path: Path, folder: Path) -> None:
    # the edit list begins 20 frames later: those are decoded and not shown
    data = make("onekey.mp4", folder).read_bytes()
    at = data.index(b"elst") + 12
    with av.open(str(make("onekey.mp4", folder))) as container:
        frame = int(1 / FPS / container.streams.video[0].time_base)
    (media_time,) = struct.unpack(">i", data[at + 4 : at + 8])
    path.write_bytes(data[: at + 4] + struct.pack(">i", media_time + 20 * frame) + data[at + 8 :])


@maker("duppts.mkv")
def _duplicate_pts(path: Path, folder: Path) -> None:
    # one frame has the timestamp of the one shown before it
    done = []

    def edit(number: int, packet: Any) -> Any:
        tick = int(1 / FPS / packet.time_base)
        if number >= 40 and not done and packet.pts - tick >= packet.dts:
            packet.pts -= tick
            done.append(number)
        return packet

    remux(make("pyramid.mp4", folder), path, edit)


# -- containers ---------------------------------------------------------------------------------


def remuxed(name: str, source: str, **options: str) -> None:
    """An input that is a copy of another in a container of another kind."""
    MAKERS[name] = lambda path, folder: remux(make(source, folder), path, **options)


remuxed("pyramid.ts", "pyramid.mp4")
remuxed("pyramid.mkv", "pyramid.mp4")
# no container, no timestamps
remuxed("pyramid.264", "pyramid.mp4")
# a moof box for each group
remuxed("fragmented.mp4", "pyramid.mp4", movflags="frag_keyframe+empty_moov+default_base_moof")
# the sample table in front
remuxed("faststart.mp4", "pyramid.mp4", movflags="faststart")

# -- AV1 ----------------------------------------------------------------------------------------

# one group, with frames that are hidden first and shown by an OBU of their own; PyAV can't copy it
for suffix in ("mp4", "mkv", "webm", "ivf", "obu"):
    encoded(f"av1_pyramid.{suffix}", "libsvtav1", preset="10", g="120")
# as LeRobot's data sets
encoded("av1_g2.mp4", "libsvtav1", preset="10", g="2", **{"svtav1-params": "scd=0"})
encoded("av1_gop.mp4", "libsvtav1", preset="10", g="17", numbers=range(70))
encoded("av1_10bit.mp4", "libsvtav1", preset="10", g="24", pix_fmt="yuv420p10le")
encoded("av1_low_delay.mp4", "libsvtav1", preset="10", g="30", **{"svtav1-params": "pred-struct=1"})
# another sequence in the middle, of another size
encoded("av1_small.obu", "libsvtav1", preset="10", g="24", numbers=range(30), size=(130, 98))


def av1_units(data: bytes) -> list[tuple[int, bytes]]:
    """OBUs of a low-overhead stream, as (type, all bytes); each has a size field."""
    found, at = [], 0
    while at < len(data):
        head = 2 if data[at] & 4 else 1
        assert data[at] & 2
        size = shift = 0
        while True:
            byte = data[at + head]
            size |= (byte & 127) << shift
            shift += 7
            head += 1
            if byte < 128:
                break
        found.append((data[at] >> 3 & 15, data[at : at + head + size]))
        at += head + size
    return found


@maker("av1_sound.mp4")
def _av1_with_sound(path: Path, _: Path) -> None:
    # with packets of sound between those of the video, which are smaller than a read
    with av.open(str(path), "w") as container:
        sound = add_sound(container)
        options = {"preset": "10", "g": "2", "crf": "60"}
        video = add_video(
            container, "libsvtav1", range(30), (WIDTH, HEIGHT), "yuv420p", None, 0, options
        )
        sound()
        video()


@maker("av1_two.obu")
def _two_sequences(path: Path, folder: Path) -> None:
    parts = [make(name, folder) for name in ("av1_small.obu", "av1_pyramid.obu")]
    path.write_bytes(b"".join(part.read_bytes() for part in parts))


@maker("av1_annexb.obu")
def _annexb(path: Path, folder: Path) -> None:
    # lengths before temporal units, frame units and OBUs: the demuxer gives other bytes
    def leb128(value: int) -> bytes:
        low = bytes([value & 127 | (128 if value > 127 else 0)])
        return low + (leb128(value >> 7) if value > 127 else b"")

    packets: list[bytes] = []
    for kind, unit in av1_units(make("av1_pyramid.obu", folder).read_bytes()):
        if kind == 2:
            packets.append(b"")
        packets[-1] += leb128(len(unit)) + unit
    frames = [leb128(len(packet)) + packet for packet in packets]
    path.write_bytes(b"".join(leb128(len(frame)) + frame for frame in frames))


@maker("av1_linear.ivf")
def _damaged_unit(path: Path, folder: Path) -> None:
    # the first unit of a packet says that it is longer than the packet: decoded linearly
    data = bytearray(make("av1_pyramid.ivf", folder).read_bytes())
    (size,) = struct.unpack("<I", data[32:36])
    at = 32 + 12 + size + 12  # in the second packet
    assert data[at] & 2
    data[at + 1] = 0x7F
    path.write_bytes(data)


# -- pictures of other kinds --------------------------------------------------------------------

encoded("h264_10bit.mp4", pix_fmt="yuv420p10le", g="30")
encoded("hevc_10bit.mp4", "libx265", pix_fmt="yuv420p10le")
encoded("h264_gray.mp4", pix_fmt="gray", g="30")
encoded("hevc_gray12.mp4", "libx265", pix_fmt="gray12le", numbers=range(40))
encoded("h264_444_129x97.mp4", pix_fmt="yuv444p", size=(129, 97), g="30")
encoded("h264_130x98.mp4", size=(130, 98), g="30")
encoded("h264_128x68.mp4", size=(128, 68), g="30")

encoded("mpeg4.avi", "mpeg4", numbers=range(40), g="12")
encoded("ffv1.mkv", "ffv1", numbers=range(20))
encoded("vp9.webm", "libvpx-vp9", numbers=range(30), deadline="realtime", g="12")
encoded("mjpeg.avi", "mjpeg", numbers=range(12), pix_fmt="yuvj420p")

# matrices of a tkhd box: 16.16 numbers, the last column 2.30
TURN_90 = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, HEIGHT << 16, 0, 1 << 30)
MIRROR = struct.pack(">9i", -(1 << 16), 0, 0, 0, 1 << 16, 0, WIDTH << 16, 0, 1 << 30)


@maker("rotate90.mp4")
def _rotate(path: Path, folder: Path) -> None:
    # a display matrix that turns by 90 degrees clockwise
    path.write_bytes(patch_box(make("pyramid.mp4", folder).read_bytes(), b"tkhd", 48, TURN_90))


@maker("mirror.mp4")
def _mirror(path: Path, folder: Path) -> None:
    # a display matrix that swaps left and right
    path.write_bytes(patch_box(make("pyramid.mp4", folder).read_bytes(), b"tkhd", 48, MIRROR))


@maker("resize.ts")
def _resize(path: Path, folder: Path) -> None:
    # two transport streams end to end, the second of another size, with continuous clocks
    parts = [folder / "resize_a.ts", folder / "resize_b.ts"]
    encode(parts[0], numbers=range(30), g="30")
    encode(parts[1], numbers=range(30, 60), size=(160, 120), start=30, g="30")
    path.write_bytes(b"".join(part.read_bytes() for part in parts))


# -- damage -------------------------------------------------------------------------------------


@maker("bitflip.mp4")
def _bit_flip(path: Path, folder: Path) -> None:
    # the 51st packet in decode order has noise in the middle of its slice
    def edit(number: int, packet: Any) -> Any:
        if number != 50:
            return packet
        data = bytearray(bytes(packet))
        for k in range(len(data) // 4, len(data), 5):
            data[k] ^= 0x5A
        copy = av.Packet(bytes(data))
        copy.pts, copy.dts, copy.time_base = packet.pts, packet.dts, packet.time_base
        copy.is_keyframe = packet.is_keyframe
        return copy

    remux(make("nobframes.mp4", folder), path, edit)


@maker("nofirstkey.ts")
def _no_first_key(path: Path, folder: Path) -> None:
    # the first key frame is missing: nothing can be shown before the second
    remux(make("pyramid.mp4", folder), path, lambda number, packet: packet if number else None)


@maker("nomoov.mp4")
def _no_moov(path: Path, folder: Path) -> None:
    # cut off before the sample table
    data = make("pyramid.mp4", folder).read_bytes()
    path.write_bytes(data[: data.rindex(b"moov") - 100])


@maker("cut.mkv")
def _cut(path: Path, folder: Path) -> None:
    # cut off in the middle of a packet
    data = make("pyramid.mkv", folder).read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])


@maker("empty.mp4")
def _empty(path: Path, _: Path) -> None:
    path.write_bytes(b"")


@maker("text.mp4")
def _text(path: Path, _: Path) -> None:
    path.write_text("this is no video\n" * 40)


@maker("sound.mp4")
def _sound(path: Path, _: Path) -> None:
    # sound only
    with av.open(str(path), "w") as container:
        add_sound(container)()
