"""What can't be had raises, and says why."""

from __future__ import annotations

import builtins
import contextlib
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import sparseframes
from sparseframes import VideoDecoder, errors
from sparseframes.validation.reference import digest, own_reference

Clip = Callable[[str], str]


@pytest.mark.parametrize("name", ["empty.mp4", "text.mp4", "nomoov.mp4", "sound.mp4"])
def test_no_video(clip: Clip, name: str) -> None:
    with pytest.raises(sparseframes.SourceError) as caught:
        VideoDecoder(clip(name))
    assert name in str(caught.value)
    assert caught.value.file == clip(name)
    assert caught.value.code < 0
    assert isinstance(caught.value, OSError)
    with pytest.raises(sparseframes.SourceError):
        VideoDecoder(Path(clip(name)).read_bytes())


def test_sound_is_told_from_rubbish(clip: Clip) -> None:
    messages = []
    for name in ("text.mp4", "sound.mp4"):
        with pytest.raises(sparseframes.SourceError) as caught:
            VideoDecoder(clip(name))
        messages.append(str(caught.value).replace(clip(name), ""))
    assert messages[0] != messages[1]


@pytest.mark.parametrize("path", ["/nonexistent/video.mp4", "", "/", "http://localhost:1/a.mp4"])
def test_no_file(path: str) -> None:
    with pytest.raises(sparseframes.SourceError):
        VideoDecoder(path)


def test_nul_in_path() -> None:
    with pytest.raises(sparseframes.ArgumentError):
        VideoDecoder("a\0b")


@pytest.mark.parametrize(
    "options",
    [
        {"dimension_order": "HWC"},
        {"pixel_format": "rgb48"},
        {"threads": 0},
        {"threads": 65},
        {"threads": True},
        {"threads": 1.0},
        {"stream_index": -1},
        {"stream_index": "0"},
    ],
)
def test_options(clip: Clip, options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))) as caught:
        VideoDecoder(clip("pyramid.mp4"), **options)
    assert isinstance(caught.value, sparseframes.ArgumentError)


def test_closed(clip: Clip) -> None:
    decoder = VideoDecoder(clip("pyramid.mp4"))
    assert not decoder.closed
    with decoder:
        decoder[0]
    assert decoder.closed
    decoder.close()
    for ask in (
        lambda: decoder[0],
        lambda: len(decoder),
        lambda: decoder.metadata,
        lambda: decoder.stats,
        lambda: decoder.plan([0]),
        lambda: decoder.get_frames_at([0]),
        lambda: decoder.get_frame_played_at(0),
        lambda: next(iter(decoder)),
        lambda: decoder.__enter__(),
        lambda: pickle.dumps(decoder),
        decoder.reset_stats,
        decoder.build_index,
    ):
        with pytest.raises(sparseframes.ClosedError, match="closed"):
            ask()
    assert "closed" in repr(decoder)


def test_damage(clip: Clip) -> None:
    """Frames before damage are exact; later each is the linear decode's or raises."""
    with VideoDecoder(clip("bitflip.mp4"), pixel_format="native") as decoder:
        with decoder._use() as reader:
            expected = own_reference(reader, "native", decoder._orientation)
        assert expected.damaged_from == 50
        raised = {}
        for index in [*list(range(90)), 89, 50, 3, 60, 88]:
            try:
                planes = decoder[index]
            except sparseframes.DecodeError as error:
                raised[index] = str(error)
            else:
                assert digest(list(planes)) == expected.digests[index]
        assert raised
        assert min(raised) == 50
        assert all("bitflip.mp4" in text for text in raised.values())
        # those of a chunk that come before the damage are still had
        frames = iter(decoder)
        for _ in range(50):
            next(frames)
        with pytest.raises(sparseframes.DecodeError):
            next(frames)


def test_cut_off(clip: Clip) -> None:
    with VideoDecoder(clip("cut.mkv")) as decoder:
        count = len(decoder)
        assert 45 <= count <= 54
        decoder.get_frames_at(range(0, 40, 3))


def test_errors_travel() -> None:
    error = errors.from_code(-6, "no such frame", file="a.mp4", frame=7)
    assert isinstance(error, builtins.IndexError)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is sparseframes.IndexError
    assert (str(again), again.file, again.frame, again.code) == ("no such frame", "a.mp4", 7, -6)
    assert type(errors.from_code(-99, "?")) is sparseframes.SparseError
    source = pickle.loads(pickle.dumps(errors.SourceError("gone", file="b")))
    assert (str(source), source.file) == ("gone", "b")
    for code in range(-8, 0):
        assert errors.from_code(code, "x").code == code


def test_nothing_is_printed(clip: Clip) -> None:
    # damage, rubbish, and what FFmpeg has to say of them
    code = (
        "import sys, sparseframes\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        with sparseframes.VideoDecoder(path) as d:\n"
        "            for k in range(len(d)): d[k]\n"
        "    except sparseframes.SparseError: pass\n"
    )
    names = ("bitflip.mp4", "text.mp4", "cut.mkv", "nofirstkey.ts", "nomoov.mp4", "opengop.mp4")
    done = subprocess.run(
        [sys.executable, "-c", code, *map(clip, names)], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_log_goes_to_logging(clip: Clip, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="sparseframes")
    with (
        VideoDecoder(clip("bitflip.mp4")) as decoder,
        contextlib.suppress(sparseframes.DecodeError),
    ):
        decoder.get_frames_at(np.arange(45, 60))
    assert all(record.name == "sparseframes" for record in caplog.records)
