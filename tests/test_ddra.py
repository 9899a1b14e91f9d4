"""DDRA: the encoder program, transcoding, writing arrays, and the check of the structure."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import media
import numpy as np
import pytest
from encoder_program import needs_program

from sparseframes import Encoder, VideoDecoder, check_ddra, clear_cache, transcode
from sparseframes.cli._app import run
from sparseframes.encode import (
    EncodeError,
    ProgramNotFoundError,
    Settings,
    find_program,
)
from sparseframes.encode._period import TRIED
from sparseframes.encode._program import probe, remove_lost_parts
from sparseframes.encode._transcode import compare
from sparseframes.errors import ArgumentError, SourceError

Clip = Callable[[str], str]
Source = Callable[..., str]

PERIODS = [2, 8, 17, 32, 64, 128]
QUICK = {"preset": "ultrafast", "threads": 1}


@pytest.fixture(scope="module")
def source(folder: Path) -> Source:
    """source(count) is the path of a nearly lossless clip of so many numbered pictures."""

    def make(count: int, size: tuple[int, int] = (64, 48), pix_fmt: str = "yuv420p") -> str:
        path = folder / f"numbers_{count}_{size[0]}x{size[1]}_{pix_fmt}.mp4"
        if not path.exists():
            options = {"crf": "10", "preset": "ultrafast"}
            media.encode(path, numbers=range(count), size=size, pix_fmt=pix_fmt, **options)
        return str(path)

    return make


def numbers(path: str | Path) -> list[int]:
    """The numbers in the pictures of a file, decoded in order by PyAV."""
    with av.open(str(path)) as container:
        return [
            media.number_of(frame.to_ndarray(format="rgb24")) for frame in container.decode(video=0)
        ]


def sync_samples(path: Path) -> int:
    """How many samples of an mp4 file its table calls key frames."""
    data = path.read_bytes()
    at = data.index(b"stss")
    return int.from_bytes(data[at + 8 : at + 12], "big")


def names(folder: Path) -> list[str]:
    """The names in a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


# -- structure ----------------------------------------------------------------------------------


@needs_program
@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv420p10le"])
@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("period", PERIODS)
def test_structure(
    source: Source, tmp_path: Path, codec: str, period: int, pixel_format: str
) -> None:
    lengths = {1, 2, period - 1, period, period + 1, 2 * period + period // 2 + 1}
    if pixel_format != "yuv420p":
        lengths = {period + 1, 2 * period + 2}
    for count in sorted(lengths):
        target = tmp_path / f"{count}.mp4"
        settings = {"codec": codec, "period": period, "pixel_format": pixel_format, **QUICK}
        transcode(source(count), target, **settings)
        report = check_ddra(target)
        assert report.ok
        assert report.frames == count
        assert report.anchors == sorted({*range(0, count, period), count - 1})
        assert report.worst <= 3
        assert numbers(target) == [k % 256 for k in range(count)]


@needs_program
@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_presets_and_threads_keep_the_structure(source: Source, tmp_path: Path, codec: str) -> None:
    for k, options in enumerate(
        (
            {"preset": "medium"},
            {"preset": "slow", "threads": 3, "tune": "none"},
            {"profile": "compact", "threads": 2},
            {"profile": "fast", "crf": 40},
            {"preset": "veryfast", "tune": "zerolatency"},
            {"preset": "fast", "tune": "grain"},
        )
    ):
        target = tmp_path / f"{k}.mp4"
        transcode(source(75), target, codec, 32, **options)
        report = check_ddra(target)
        assert report.anchors == [0, 32, 64, 74]
        assert report.ok
        assert numbers(target) == list(range(75))


@needs_program
@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_idr_periods(source: Source, tmp_path: Path, codec: str) -> None:
    target = tmp_path / "idr.mp4"
    transcode(source(75), target, codec, 8, idr=2, **QUICK)
    report = check_ddra(target)
    assert report.ok
    assert report.anchors == [0, 8, 15, 16, 24, 31, 32, 40, 47, 48, 56, 63, 64, 72, 74]
    assert sync_samples(target) == 5
    assert numbers(target) == list(range(75))


@needs_program
@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_cost_of_requests(source: Source, tmp_path: Path, codec: str) -> None:
    target = tmp_path / "cost.mp4"
    transcode(source(129), target, codec, 32, **QUICK)
    with VideoDecoder(str(target)) as decoder:
        for count in (1, 2, 5, 31):
            decoder.reset_stats()
            clear_cache()
            chosen = list(range(33, 33 + count))
            decoder.get_frames_at(chosen)
            assert decoder.stats.pictures_reconstructed == count + 2
        for k in range(129):
            assert len(decoder.plan([k]).reconstruct) == (1 if k % 32 == 0 else 3)


def test_other_files_are_told_apart(clip: Clip) -> None:
    for name in ("pyramid.mp4", "nobframes.mp4", "opengop.mp4", "hevc_opengop.mp4"):
        report = check_ddra(clip(name))
        assert not report.ok
        assert report.violations
        assert report.violation_count >= len(report.violations)
        assert report.worst > 3
    assert re.match(r"frame \d+: it references frame \d+", str(report.violations[0]))
    assert check_ddra(clip("oneframe.mp4")).ok


# -- what of the source survives ----------------------------------------------------------------


@needs_program
@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("name", ["vfr.mp4", "noedit.mp4", "pyramid.mkv", "pyramid.ts"])
def test_times(clip: Clip, tmp_path: Path, name: str, codec: str) -> None:
    def times(path: str) -> np.ndarray:
        with av.open(path) as container:
            base = container.streams.video[0].time_base
            return np.array([float(f.pts * base) for f in container.decode(video=0)])

    target = tmp_path / "times.mp4"
    result = transcode(clip(name), target, codec, 16, **QUICK)
    before, after = times(clip(name)), times(str(target))
    assert result.frames == len(before) == len(after)
    if name == "pyramid.ts":  # its clock starts anywhere
        before, after = before - before[0], after - after[0]
    np.testing.assert_allclose(after, before, atol=1e-5)
    assert numbers(target) == numbers(clip(name))


@needs_program
@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_rotation(clip: Clip, tmp_path: Path, codec: str) -> None:
    target = tmp_path / "turned.mp4"
    transcode(clip("rotate90.mp4"), target, codec, 16, **QUICK)
    with VideoDecoder(clip("rotate90.mp4")) as before, VideoDecoder(str(target)) as after:
        assert after.metadata.rotation == before.metadata.rotation != 0
        assert after[3].shape == before[3].shape
        difference = after[3].astype(float) - before[3].astype(float)
        assert np.abs(difference).mean() < 12


@needs_program
def test_sound_and_colour(clip: Clip, tmp_path: Path) -> None:
    target = tmp_path / "sound.mp4"
    transcode(clip("twovideo.mp4"), target, period=8, **QUICK)
    streams = probe(str(target))["streams"]
    assert sorted(stream["codec_name"] for stream in streams) == ["aac", "hevc"]
    assert numbers(target) == list(range(30))
    tagged = tmp_path / "tagged.mp4"
    subprocess.run(
        [
            *(str(find_program()), "-v", "error", "-i", clip("pyramid.mp4"), "-c:v", "libx264"),
            *(
                "-x264-params",
                "colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:fullrange=on",
            ),
            str(tagged),
        ],
        check=True,
    )
    names = ("color_space", "color_primaries", "color_transfer", "color_range", "pix_fmt")
    wanted = {name: probe(str(tagged))["streams"][0][name] for name in names}
    assert wanted["color_space"] == "bt2020nc"
    for codec in ("h264", "hevc"):
        transcode(tagged, tmp_path / f"{codec}.mp4", codec, 8, **QUICK)
        stream = probe(str(tmp_path / f"{codec}.mp4"))["streams"][0]
        assert {name: stream[name] for name in names} == wanted


@needs_program
@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("name", ["h264_444_129x97.mp4", "h264_130x98.mp4", "h264_10bit.mp4"])
def test_sizes_and_formats(clip: Clip, tmp_path: Path, name: str, codec: str) -> None:
    target = tmp_path / "size.mkv"
    transcode(clip(name), target, codec, 16, **QUICK)
    before, after = probe(clip(name))["streams"][0], probe(str(target))["streams"][0]
    for field in ("width", "height", "pix_fmt"):
        assert after[field] == before[field]
    assert check_ddra(target).ok


@needs_program
def test_measures(source: Source, tmp_path: Path) -> None:
    result = transcode(source(40), tmp_path / "m.mp4", period=8, crf=20, measure=True, **QUICK)
    assert result.psnr is not None
    assert 25 < result.psnr < 60
    assert result.ssim is not None
    assert 0.8 < result.ssim <= 1
    assert result.amplification_after < 3
    assert result.ratio == result.bytes_after / result.bytes_before
    assert compare(source(40), source(40))[0] == float("inf")


@needs_program
@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_period_by_trial(source: Source, tmp_path: Path, codec: str) -> None:
    target = tmp_path / "auto.mp4"
    result = transcode(source(75), target, codec, "auto", **QUICK)
    assert result.period in TRIED
    assert check_ddra(target).anchors == sorted({*range(0, 75, result.period), 74})


# -- every reader -------------------------------------------------------------------------------


@needs_program
@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("idr", [0, 2])
@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_seeking_with_pyav(
    source: Source, tmp_path: Path, codec: str, idr: int, suffix: str
) -> None:
    target = tmp_path / f"seek{suffix}"
    transcode(source(100), target, codec, 16, idr=idr, **QUICK)
    with av.open(str(target)) as container:
        stream = container.streams.video[0]
        pts = [frame.pts for frame in container.decode(stream)]
        for k in range(0, 100, 3):
            container.seek(pts[k], stream=stream)
            frame = next(f for f in container.decode(stream) if f.pts >= pts[k])
            assert media.number_of(frame.to_ndarray(format="rgb24")) == k


# -- options that contradict --------------------------------------------------------------------


@needs_program
@pytest.mark.parametrize(
    ("encoder", "options", "words"),
    [
        ("libx264", "-g 1", "-g of 2 to 128"),
        ("libx265", "-g 129", "-g of 2 to 128"),
        ("libx264", "-g 32 -bf 3", "-bf 3"),
        ("libx265", "-g 32 -refs 3", "-refs 3"),
        ("libx264", "-g 32 -sc_threshold 40", "-sc_threshold 40"),
        ("libx264", "-g 32 -b-pyramid normal", "-b-pyramid 2"),
        ("libx264", "-g 32 -x264-params bframes=8", "bframes=8"),
        ("libx264", "-g 32 -x264-params ref=4", "ref=4"),
        ("libx264", "-g 32 -x264-params keyint=50", "keyint=50"),
        ("libx264", "-g 32 -profile:v baseline", "bframes=0"),
        ("libx264", "-g 32 -force_key_frames expr:1", "forced picture type"),
        ("libx265", "-g 32 -x265-params b-pyramid=1", "b-pyramid=1"),
        ("libx265", "-g 32 -x265-params scenecut=40", "scenecut=40"),
        ("libx265", "-g 32 -x265-params open-gop=1", "open-gop=1"),
        ("libx265", "-g 32 -x265-params rc-lookahead=20", "rc-lookahead=20"),
        ("libx265", "-g 32 -forced-idr 1", "-forced-idr 1"),
    ],
)
def test_contradictions_are_refused(
    source: Source, tmp_path: Path, encoder: str, options: str, words: str
) -> None:
    command = [
        *(str(find_program()), "-v", "error", "-nostdin", "-xerror", "-i", source(40)),
        *("-c:v", encoder, "-ddra", "1", *options.split(), str(tmp_path / "no.mp4")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert words in done.stderr


@needs_program
def test_program_names_its_series() -> None:
    done = subprocess.run(
        [str(find_program()), "-version"], capture_output=True, text=True, check=True
    )
    assert re.search(r"ffmpeg version 7\.1\.5-sparseframes-encoder-series-[0-9a-f]{8}", done.stdout)


@pytest.mark.parametrize(
    "options",
    [
        {"codec": "av1"},
        {"period": 1},
        {"period": 129},
        {"period": 8.0},
        {"profile": "tiny"},
        {"threads": 0},
        {"idr": -1},
    ],
)
def test_bad_settings(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        Settings(**options)


# -- arrays -------------------------------------------------------------------------------------


@needs_program
@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("size", [(64, 48), (65, 49)])
def test_writing_arrays(tmp_path: Path, codec: str, size: tuple[int, int]) -> None:
    path = tmp_path / "episode.mp4"
    pictures = np.stack([media.picture(k, *size) for k in range(21)])
    with Encoder(path, fps=10, codec=codec, period=8, crf=10) as encoder:
        encoder.write(pictures[0])
        encoder.write(pictures[1:])
        assert encoder.frames == 21
        assert not path.exists()
    assert check_ddra(path).ok
    with VideoDecoder(str(path)) as decoder:
        assert len(decoder) == 21
        assert decoder.metadata.average_fps == pytest.approx(10)
        batch = decoder.get_all_frames().data
    assert [media.number_of(frame) for frame in batch] == list(range(21))
    assert np.abs(batch.astype(float) - pictures).mean() < 8
    assert names(tmp_path) == ["episode.mp4"]


@needs_program
def test_writing_fails_without_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "episode.mp4"
    picture = media.picture(0, 64, 48)

    def write(*pictures: np.ndarray, **options: Any) -> None:
        with Encoder(path, **options) as encoder:
            for each in pictures:
                encoder.write(each)

    def leave() -> None:
        with Encoder(path) as encoder:
            encoder.write(picture)
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        leave()
    with pytest.raises(ArgumentError, match="after frames of"):
        write(picture, picture[:32])
    with pytest.raises(ArgumentError, match="uint8"):
        write(picture.astype(np.float32))
    with pytest.raises(EncodeError, match="no frames"):
        write()
    with pytest.raises(EncodeError, match="preset"):
        write(*[picture] * 200, preset="nope")
    assert names(tmp_path) == []
    path.write_bytes(b"mine")
    with pytest.raises(EncodeError, match="exists already"):
        write(picture)
    assert path.read_bytes() == b"mine"


# -- the command --------------------------------------------------------------------------------


@needs_program
def test_batch(source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = [source(30), source(40), source(50)]
    out = tmp_path / "out"
    command = ["transcode", *sources, "-o", str(out), "--period", "8", "--preset", "ultrafast"]
    assert run([*command, "--jobs", "2", "--measure"]) == 0
    assert "0.9" in capsys.readouterr().out
    assert len(names(out)) == 3
    assert all(check_ddra(out / name).ok for name in names(out))
    assert run(command) == 1
    assert "exists already and 2 more" in capsys.readouterr().err
    (out / Path(sources[1]).name).unlink()
    kept = (out / Path(sources[0]).name).stat().st_mtime_ns
    assert run([*command, "--resume"]) == 0
    assert "already there: 2 files" in capsys.readouterr().out
    assert (out / Path(sources[0]).name).stat().st_mtime_ns == kept
    assert run([*command, "--force", "--json"]) == 0
    assert '"skipped": 0' in capsys.readouterr().out
    assert run(["check-ddra", *(str(out / name) for name in names(out))]) == 0
    assert run(["check-ddra", sources[0]]) == 1
    assert "not DDRA" in capsys.readouterr().out


@needs_program
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_killed(source: Source, tmp_path: Path, sent: int) -> None:
    out = tmp_path / "out"
    big = source(200, (640, 480))
    command = [sys.executable, "-m", "sparseframes.cli", "transcode", big, "-o", str(out)]
    process = subprocess.Popen(
        [*command, "--preset", "veryslow"],
        stderr=subprocess.DEVNULL,
        # a shell that runs the tests in the background has it ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 300
        while not (out.is_dir() and names(out)):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(0.5)
        process.send_signal(sent)
        assert process.wait(300) != 0
    finally:
        process.kill()
    target = out / Path(big).name
    assert not target.exists()
    if sent == signal.SIGKILL:
        remove_lost_parts(target)
    assert names(out) == []


@needs_program
def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], clip: Clip) -> None:
    text = tmp_path / "text.mp4"
    text.write_text("this is no video\n" * 1000)
    out = tmp_path / "out"
    for name in (str(text), str(tmp_path / "missing.mp4")):
        assert run(["transcode", name, "-o", str(out)]) != 0
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert name in error
    assert not out.exists() or names(out) == []
    with pytest.raises(SourceError):
        transcode(tmp_path / "missing.mp4", tmp_path / "x.mp4")
    with pytest.raises(EncodeError, match="must end in"):
        transcode(clip("pyramid.mp4"), tmp_path / "x.webm")
    with pytest.raises(EncodeError, match="No such file"):
        transcode(clip("pyramid.mp4"), tmp_path / "no" / "x.mp4")
    with pytest.raises(EncodeError, match="same file"):
        transcode(clip("pyramid.mp4"), clip("pyramid.mp4"), force=True)
    cut = tmp_path / "cut.mp4"
    data = Path(clip("faststart.mp4")).read_bytes()
    cut.write_bytes(data[: len(data) // 2])
    with pytest.raises(EncodeError):
        transcode(cut, tmp_path / "x.mp4", **QUICK)
    assert names(tmp_path) == [
        "cut.mp4",
        *(["out"] if out.exists() else []),
        "text.mp4",
    ]


@needs_program
def test_full_disk(source: Source, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("no right to mount a small file system")
    try:
        with pytest.raises(EncodeError, match="No space left"):
            transcode(source(60, (640, 480)), disk / "x.mp4", crf=5, **QUICK)
        assert names(disk) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "sparseframes.cli", "transcode", *arguments]


def _fails(command: list[str], words: str) -> None:
    """The command fails with one line that has the words."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert words in done.stderr


@needs_program
@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_file_size_limit(source: Source, tmp_path: Path, codec: str) -> None:
    # what a quota does: files of this process may not become larger than 20000 bytes
    prlimit = shutil.which("prlimit")
    if prlimit is None:
        pytest.skip("no prlimit")
    out = tmp_path / "out"
    command = _command(source(60, (640, 480)), "-o", str(out), "--codec", codec, "--crf", "5")
    _fails([prlimit, "--fsize=20000", *command, "--preset", "ultrafast"], "larger than")
    assert names(out) == []
    path = out / "episode.mp4"
    program = (
        "import resource, numpy as np\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "from sparseframes import Encoder\n"
        "noise = np.random.default_rng(0).integers(0, 255, (40, 96, 128, 3), np.uint8)\n"
        f"with Encoder({str(path)!r}, codec={codec!r}, crf=5, preset='ultrafast') as encoder:\n"
        "    encoder.write(noise)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "EncodeError" in done.stderr
    assert "larger than" in done.stderr
    assert names(out) == []


@needs_program
def test_no_permission(source: Source, tmp_path: Path) -> None:
    without: list[str] = []
    if os.geteuid() == 0:
        # for root there is no forbidden file, unless it gives up its capabilities
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("root may do everything, and there is no setpriv")
        without = [setpriv, "--bounding-set=-all", "--inh-caps=-all"]
        if subprocess.run([*without, "true"], capture_output=True, check=False).returncode != 0:
            pytest.skip("root may do everything here")
    closed = tmp_path / "closed"
    closed.mkdir()
    secret = tmp_path / "secret.mp4"
    shutil.copy(source(8), secret)
    secret.chmod(0)
    closed.chmod(0o555)
    try:
        for arguments in (
            (source(8), "-o", str(closed)),
            (source(8), "-o", str(closed / "new")),
            (str(secret), "-o", str(tmp_path / "out")),
        ):
            _fails([*without, *_command(*arguments)], "Permission denied")
        assert names(closed) == []
        assert not (tmp_path / "out").exists() or names(tmp_path / "out") == []
    finally:
        closed.chmod(0o755)
        secret.chmod(0o644)


@needs_program
def test_program_that_is_killed(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as the kernel does when memory runs out
    fake = tmp_path / "bin" / "ffmpeg"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nkill -KILL $$\n")
    fake.chmod(0o755)
    (fake.parent / "ffprobe").symlink_to(find_program("ffprobe"))
    monkeypatch.setenv("SPARSEFRAMES_FFMPEG", str(fake))
    with pytest.raises(EncodeError, match="ended by SIGKILL"):
        transcode(source(8), tmp_path / "x.mp4")
    assert names(tmp_path) == ["bin"]


def test_missing_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clip: Clip) -> None:
    monkeypatch.delenv("SPARSEFRAMES_FFMPEG", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ProgramNotFoundError, match="make encoder"):
        transcode(clip("pyramid.mp4"), tmp_path / "x.mp4")
    monkeypatch.setenv("SPARSEFRAMES_FFMPEG", str(tmp_path / "nothing"))
    with pytest.raises(ProgramNotFoundError, match="not a program"):
        find_program()
