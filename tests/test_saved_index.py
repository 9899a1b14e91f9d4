"""Saved indexes: the same frames as without, and none from one that doesn't fit."""

from __future__ import annotations

import io
import os
import random
import shutil
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import media
import numpy as np
import pytest

from sparseframes import SavedIndexError, SavedIndexWarning, SourceError, VideoDecoder
from sparseframes.cli._app import run
from sparseframes.errors import DecodeError, SparseError, UnsupportedError

Clip = Callable[[str], str]


def save(path: str) -> bytes:
    with VideoDecoder(path) as decoder, decoder._use() as reader:
        return reader.export_index()


@pytest.fixture
def video(clip: Clip, tmp_path: Path) -> Path:
    """A file of the test's own."""
    return Path(shutil.copy2(clip("pyramid.mp4"), tmp_path / "video.mp4"))


# -- the same as without --------------------------------------------------------------------------


@pytest.mark.parametrize("name", media.IN_ORDER)
def test_everything_is_as_without(clip: Clip, name: str) -> None:
    path = clip(name)
    fresh = VideoDecoder(path, pixel_format="native")
    loaded = VideoDecoder(path, pixel_format="native", saved_index=save(path), on_stale="refuse")
    assert loaded._info.saved
    assert len(loaded) == len(fresh)
    assert loaded.metadata == fresh.metadata
    count = len(fresh)
    with fresh._use() as x, loaded._use() as y:
        assert x.frame_info(0, count).tobytes() == y.frame_info(0, count).tobytes()
        # all tables and epochs: what stands before is a hash of them
        assert x.export_index()[48:] == y.export_index()[48:]
    indices = random.Random(name).sample(range(count), min(count, 12))
    for index in indices:
        a, b = fresh.plan([index]), loaded.plan([index])
        assert a.reconstruct.tolist() == b.reconstruct.tolist()
        for picture in a.reconstruct.tolist():
            assert a.references(picture) == b.references(picture)
        assert a.bytes == b.bytes
    for a, b in zip(
        fresh.get_frames_at(indices).data, loaded.get_frames_at(indices).data, strict=True
    ):
        assert np.array_equal(a, b)
    # what the header pass would have read is not
    assert loaded.stats.state_only_packets == 0


def test_only_the_closure_is_read(clip: Clip) -> None:
    path = clip("pyramid.mp4")
    saved = save(path)
    with VideoDecoder(path, saved_index=saved, on_stale="refuse") as decoder:
        plan = decoder.plan([70])
        before = decoder.stats.source_bytes
        assert before == 0
        decoder.get_frame_at(70)
        assert decoder.stats.source_bytes == plan.bytes


def test_memory_and_file_likes(clip: Clip) -> None:
    data = Path(clip("pyramid.mp4")).read_bytes()
    saved = save(clip("pyramid.mp4"))
    for source in (data, io.BytesIO(data)):
        with VideoDecoder(source, saved_index=saved, on_stale="refuse") as decoder:
            assert decoder._info.saved
            assert media.number_of(decoder[33]) == 33
    with pytest.raises(SavedIndexError, match="stale"):
        VideoDecoder(data[:-1] + b"x", saved_index=saved, on_stale="refuse")


def test_a_copy_has_the_same_index(video: Path, tmp_path: Path) -> None:
    saved = save(str(video))
    copy = Path(shutil.copy(video, tmp_path / "copy.mp4"))
    os.utime(copy, ns=(1, 1))
    with VideoDecoder(copy, saved_index=saved, on_stale="refuse") as decoder:
        assert media.number_of(decoder[40]) == 40


def test_another_stream_is_refused(clip: Clip) -> None:
    path = clip("twovideo.mp4")
    saved = save(path)
    with pytest.raises(SavedIndexError, match="stream"):
        VideoDecoder(path, stream_index=2, saved_index=saved, on_stale="refuse")


def test_codecs_without_closures_have_none(clip: Clip) -> None:
    with VideoDecoder(clip("mjpeg.avi")) as decoder, pytest.raises(UnsupportedError, match="codec"):
        decoder.save_index()


# -- stale and damaged ones -----------------------------------------------------------------------


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("policy", ["refuse", "bypass", "rebuild"])
@pytest.mark.parametrize("fault", ["damaged", "empty", "stale"])
def test_policies(video: Path, policy: str, fault: str) -> None:
    with VideoDecoder(video) as decoder:
        saved = Path(decoder.save_index())
    assert saved == video.with_name("video.mp4.sparse")
    if fault == "damaged":
        damage(saved)
    elif fault == "empty":
        saved.write_bytes(b"")
    else:
        video.write_bytes(video.read_bytes() + b"\0\0\0\x08free")
    before = saved.read_bytes()
    if policy == "refuse":
        with pytest.raises(SavedIndexError) as caught:
            VideoDecoder(video, saved_index="auto", on_stale="refuse")
        assert caught.value.file == str(video)
        assert caught.value.code == -9
        return
    with pytest.warns(SavedIndexWarning) as warned:
        decoder = VideoDecoder(video, saved_index="auto", on_stale=policy)  # type: ignore[arg-type]
    assert len(warned) == 1
    assert str(video) in str(warned[0].message)
    assert media.number_of(decoder[12]) == 12
    assert (saved.read_bytes() != before) == (policy == "rebuild")
    if policy == "rebuild":
        with VideoDecoder(video, saved_index="auto", on_stale="refuse") as again:
            assert again._info.saved


def test_none_is_no_fault(video: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with VideoDecoder(video, saved_index="auto", on_stale="refuse") as decoder:
            assert media.number_of(decoder[3]) == 3
    assert list(video.parent.iterdir()) == [video]


def test_every_truncation_and_many_flips_are_refused(clip: Clip) -> None:
    path = clip("onekey.mp4")
    saved = save(path)
    rng = random.Random(7)
    variants = [saved[:size] for size in range(0, len(saved), 37)]
    for _ in range(300):
        data = bytearray(saved)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        variants.append(bytes(data))
    for variant in variants:
        with pytest.raises(SavedIndexError):
            VideoDecoder(path, saved_index=variant, on_stale="refuse")


def test_other_versions_are_named(clip: Clip) -> None:
    path = clip("onekey.mp4")
    for place, value, words in ((8, 4, "byte order"), (12, 2, "format 2")):
        data = bytearray(save(path))
        data[place] = value
        with pytest.raises(SavedIndexError, match=words):
            VideoDecoder(path, saved_index=bytes(data), on_stale="refuse")


def test_a_file_that_is_written_to_raises(video: Path, clip: Clip) -> None:
    """In place, after the index was made: no frame of it may be given out."""
    other = Path(clip("opengop.mp4")).read_bytes()
    for saved in (None, save(str(video))):
        original = video.read_bytes()
        stamp = video.stat()
        decoder = VideoDecoder(video, saved_index=saved, on_stale="refuse")
        assert media.number_of(decoder[5]) == 5
        with video.open("r+b") as file:
            file.write(other[: len(original)])
        with pytest.raises(SourceError, match="changed"):
            decoder.get_frames_at([44, 80])
        video.write_bytes(original)
        os.utime(video, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def test_changed_packets_are_noticed_by_their_beginning(video: Path) -> None:
    """Even with the times put back."""
    saved = save(str(video))
    stamp = video.stat()
    decoder = VideoDecoder(video, saved_index=saved, on_stale="refuse")
    data = bytearray(video.read_bytes())
    start = data.index(b"mdat") + 4
    data[start : start + 3000] = bytes(3000)
    with video.open("r+b") as file:
        file.write(data)
    os.utime(video, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with pytest.raises((SourceError, DecodeError)):
        decoder.get_frame_at(0)


# -- places ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["folder", "all.sparseset"])
def test_folders_and_sets(clip: Clip, tmp_path: Path, where: str) -> None:
    place = tmp_path / where
    if where == "folder":
        place.mkdir()
    names = ["pyramid.mp4", "opengop.mp4", "hevc_opengop.mp4"]
    for name in names:
        with VideoDecoder(clip(name), saved_index=place) as decoder:
            assert not decoder._info.saved
            decoder.save_index()
    for name in names:
        with VideoDecoder(clip(name), saved_index=place, on_stale="refuse") as decoder:
            assert decoder._info.saved
            assert media.number_of(decoder[21]) == 21
    moved = shutil.copy(clip(names[0]), tmp_path / "other name.mp4")
    with VideoDecoder(moved, saved_index=place, on_stale="refuse") as decoder:
        assert decoder._info.saved


def test_a_set_that_is_none_is_refused(video: Path, tmp_path: Path) -> None:
    place = tmp_path / "bad.sparseset"
    place.write_bytes(b"this is no data base" * 100)
    with pytest.warns(SavedIndexWarning):
        decoder = VideoDecoder(video, saved_index=place)
    assert media.number_of(decoder[1]) == 1
    with pytest.raises(OSError, match=r"bad\.sparseset"):
        VideoDecoder(video, saved_index=place, on_stale="refuse")


def test_concurrent_builders(video: Path, tmp_path: Path) -> None:
    place = tmp_path / "all.sparseset"
    failures: list[BaseException] = []

    def build() -> None:
        try:
            with VideoDecoder(video) as decoder:
                for path in (None, place):
                    decoder.save_index(path)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=build) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert {path.name for path in tmp_path.iterdir()} == {
        "video.mp4",
        "video.mp4.sparse",
        "all.sparseset",
    }
    for where in ("auto", place):
        with VideoDecoder(video, saved_index=where, on_stale="refuse") as decoder:
            assert decoder._info.saved


def test_nowhere_to_write(video: Path, tmp_path: Path) -> None:
    with VideoDecoder(video) as decoder, pytest.raises(OSError, match="nowhere"):
        decoder.save_index(tmp_path / "nowhere" / "index")


# -- the command ----------------------------------------------------------------------------------


def test_command(video: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["index", "--check", str(video)]) == 1
    assert "no saved index" in capsys.readouterr().err
    assert run(["index", str(video.parent), "--jobs", "2"]) == 0
    assert capsys.readouterr().out.startswith("1 made")
    assert run(["index", str(video)]) == 0
    assert capsys.readouterr().out.startswith("1 current")
    assert run(["index", "--check", str(video)]) == 0
    damage(video.with_name("video.mp4.sparse"))
    assert run(["index", "--check", str(video)]) == 1
    assert "damaged" in capsys.readouterr().err
    assert run(["index", str(video)]) == 0
    assert run(["index", "--check", "--json", str(video)]) == 0
    broken = video.with_name("broken.mp4")
    broken.write_bytes(video.read_bytes()[:500])
    assert run(["index", str(video.parent)]) == 1
    assert not broken.with_name("broken.mp4.sparse").exists()


def test_no_frames_at_all(tmp_path: Path) -> None:
    empty = tmp_path / "empty.mp4"
    empty.write_bytes(b"")
    with pytest.raises(SparseError, match="empty"):
        VideoDecoder(empty, saved_index="auto")
