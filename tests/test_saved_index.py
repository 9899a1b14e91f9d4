"""Saved indexes: the same frames as without, and none from one that doesn't fit."""

from __future__ import annotations

import io
import os
import random
import shutil
import struct
import threading
import warnings
from collections.abc import Callable, Iterator
from itertools import combinations, islice
from pathlib import Path

import av
import forge
import media
import numpy as np
import pytest

from sparseframes import (
    SavedIndexError,
    SavedIndexWarning,
    SourceError,
    VideoDecoder,
    set_cache_budget,
)
from sparseframes._cache import DEFAULT_BUDGET
from sparseframes.cli._app import run
from sparseframes.errors import DecodeError, SparseError, UnsupportedError

Clip = Callable[[str], str]

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "av1"


def save(path: str) -> bytes:
    with VideoDecoder(path) as decoder, decoder._use() as reader:
        return reader.export_index()


# one for each kind of index
KINDS = ["pyramid.mp4", "av1_pyramid.mp4"]


@pytest.fixture(params=KINDS)
def video(request: pytest.FixtureRequest, clip: Clip, tmp_path: Path) -> Path:
    """A file of the test's own."""
    return Path(shutil.copy2(clip(request.param), tmp_path / "video.mp4"))


# -- the same as without --------------------------------------------------------------------------


def same_as_without(path: str, seed: int = 1) -> None:
    """Metadata, times, plans and frames."""
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
    indices = random.Random(seed).sample(range(count), min(count, 12))
    for index in indices:
        a, b = fresh.plan([index]), loaded.plan([index])
        assert a.reconstruct.tolist() == b.reconstruct.tolist()
        for picture in a.reconstruct.tolist():
            assert a.references(picture) == b.references(picture)
        assert a.bytes == b.bytes
        assert a.linear_count == b.linear_count
        # each by itself: sizes may differ
        for a, b in zip(fresh[index], loaded[index], strict=True):
            assert np.array_equal(a, b)
    # what the header pass would have read is not
    assert loaded.stats.state_only_packets == 0


@pytest.mark.parametrize("name", [*media.IN_ORDER, *media.AV1])
def test_everything_is_as_without(clip: Clip, name: str) -> None:
    same_as_without(clip(name))
    with VideoDecoder(clip(name), saved_index=save(clip(name)), on_stale="refuse") as decoder:
        first = 100 * (name == "twovideo.mp4" and decoder.metadata.width == 64)
        for k in (0, len(decoder) - 1, len(decoder) // 3):
            assert media.number_of(decoder[k]) == k + first


def test_new_sequences_in_the_middle(clip: Clip) -> None:
    path = clip("av1_two.obu")
    same_as_without(path)
    with VideoDecoder(path, saved_index=save(path), on_stale="refuse") as decoder:
        assert [media.number_of(decoder[k]) for k in (119, 3, 30, 29, 70)] == [89, 3, 0, 29, 40]
        assert decoder[29].shape == (98, 130, 3)
        assert decoder[30].shape == (96, 128, 3)


def test_frames_that_are_not_shown(clip: Clip, tmp_path: Path) -> None:
    # an edit list that begins 20 frames later
    data = Path(clip("av1_pyramid.mp4")).read_bytes()
    with av.open(clip("av1_pyramid.mp4")) as container:
        step = int(1 / media.FPS / container.streams.video[0].time_base)
    at = data.index(b"elst") + 12
    (media_time,) = struct.unpack(">i", data[at + 4 : at + 8])
    path = tmp_path / "editlist.mp4"
    path.write_bytes(data[: at + 4] + struct.pack(">i", media_time + 20 * step) + data[at + 8 :])
    same_as_without(str(path))
    with VideoDecoder(path, saved_index=save(str(path)), on_stale="refuse") as decoder:
        assert len(decoder) == 70
        assert [media.number_of(decoder[k]) for k in (0, 69, 17)] == [20, 89, 37]


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"there is no {CORPUS}")
@pytest.mark.parametrize(
    "name",
    [
        "dav1d_8-bit_data_00000071.ivf",  # hidden frames, by libaom
        "dav1d_8-bit_issues_326_order_hint_bits_1.ivf",
        "dav1d_10-bit_argon_test5606.obu",  # short signaling, sizes from references, film grain
        "dav1d_10-bit_argon_test185_302.obu",  # new sequences, super-resolution
        "dav1d_8-bit_features_annexb.obu",
        "dav1d_8-bit_resize_av1-1-b8-03-sizeup.ivf",
        "vkcts_av1-176x144-main-basic-8.ivf",  # no order hints
        "torchcodec_gradient.avif",
    ],
)
def test_corpus(name: str) -> None:
    same_as_without(str(CORPUS / name), seed=3)


@pytest.mark.parametrize("name", KINDS)
def test_only_the_closure_is_read(clip: Clip, name: str) -> None:
    path = clip(name)
    saved = save(path)
    with VideoDecoder(path, saved_index=saved, on_stale="refuse") as decoder:
        plan = decoder.plan([70])
        before = decoder.stats.source_bytes
        assert before == 0
        assert media.number_of(decoder[70]) == 70
        # of AV1, the order to show a frame that was hidden, too
        shown = 3 if name.startswith("av1") else 0
        assert plan.bytes <= decoder.stats.source_bytes <= plan.bytes + shown
        assert decoder.stats.source_bytes < Path(path).stat().st_size / 2


@pytest.mark.parametrize("name", ["av1_pyramid.mp4", "av1_g2.mp4"])
def test_indexes_of_av1_are_small(clip: Clip, name: str) -> None:
    with VideoDecoder(clip(name)) as decoder:
        assert len(save(clip(name))) < 20 * len(decoder)


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


def test_av1_that_is_decoded_linearly_has_none(clip: Clip, tmp_path: Path) -> None:
    path = Path(shutil.copy(clip("av1_linear.ivf"), tmp_path))
    words = r"av1_linear.ivf: .*decoded linearly.*: .* \(packet \d"
    with VideoDecoder(path) as decoder:
        with pytest.raises(UnsupportedError, match=words):
            decoder.save_index()
        assert media.number_of(decoder[0]) == 0  # it can be read as ever
        assert not decoder.metadata.sparse
        with pytest.raises(UnsupportedError, match="decoded linearly"):
            decoder.save_index()
    assert list(tmp_path.iterdir()) == [path]
    # "rebuild" doesn't stumble over it
    path.with_name("av1_linear.ivf.sparse").write_bytes(save(clip("av1_pyramid.ivf")))
    with pytest.warns(SavedIndexWarning):
        decoder = VideoDecoder(path, saved_index="auto")
    assert media.number_of(decoder[0]) == 0


# -- stale and damaged ones -----------------------------------------------------------------------


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("policy", ["refuse", "bypass", "rebuild"])
@pytest.mark.parametrize("fault", ["damaged", "empty", "stale", "old"])
def test_policies(video: Path, policy: str, fault: str) -> None:
    with VideoDecoder(video) as decoder:
        saved = Path(decoder.save_index())
    assert saved == video.with_name("video.mp4.sparse")
    if fault == "damaged":
        damage(saved)
    elif fault == "empty":
        saved.write_bytes(b"")
    elif fault == "old":
        data = bytearray(saved.read_bytes())
        data[12] = 1
        saved.write_bytes(data)
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


def flips(saved: bytes) -> Iterator[bytes]:
    """Each byte in its turn with another bit."""
    rng = random.Random(7)
    for at in range(len(saved)):
        data = bytearray(saved)
        data[at] ^= 1 << rng.randrange(8)
        yield bytes(data)


@pytest.mark.parametrize("name", ["onekey.mp4", "av1_pyramid.mp4"])
def test_every_truncation_and_flip_is_refused(clip: Clip, name: str) -> None:
    path = clip(name)
    saved = save(path)
    variants = [saved[:size] for size in range(0, len(saved), 7)]
    for variant in (*variants, *flips(saved)):
        with pytest.raises(SavedIndexError):
            VideoDecoder(path, saved_index=variant, on_stale="refuse")


@pytest.fixture(params=[DEFAULT_BUDGET, 0])
def _kept_or_not(request: pytest.FixtureRequest) -> Iterator[None]:
    """With pictures that earlier decoders have kept, and with all reconstructed anew."""
    set_cache_budget(request.param)
    yield
    set_cache_budget(DEFAULT_BUDGET)


@pytest.mark.usefixtures("_kept_or_not")
@pytest.mark.parametrize(
    "name", ["onekey.mp4", "mbaff.mp4", "hevc_radl.mp4", "av1_pyramid.mp4", "av1_g2.mp4"]
)
def test_forged_ones_do_no_harm(clip: Clip, name: str) -> None:
    """Under a hash that fits: refused, now or by a request, or frames of the right shape."""
    path = clip(name)
    saved = save(path)
    assert forge.sign(saved) == saved
    parts = forge.Parts.of(saved, 90)
    step = 1 if name.startswith("av1") else 5
    variants = [*map(forge.sign, islice(flips(saved), 0, None, step)), *parts.variants(3, step)]
    refused = 0
    for variant in variants:
        try:
            with VideoDecoder(path, saved_index=variant, on_stale="refuse") as decoder:
                some = [k for k in (3, 40, 77) if k < len(decoder)]
                for frame in decoder.get_frames_at(some).data:
                    assert frame.ndim == 3
        except SparseError:
            refused += 1
    assert refused > len(variants) / 3
    # put together as it was, it is as it was
    with VideoDecoder(path, saved_index=parts.index(), on_stale="refuse") as decoder:
        assert [media.number_of(decoder[k]) for k in (3, 40, 77)] == [3, 40, 77]


@pytest.mark.usefixtures("_kept_or_not")
@pytest.mark.parametrize(
    ("name", "forgery"),
    [
        ("onekey.mp4", forge.Parts.unmarked),
        ("pyramid.mp4", forge.Parts.grayed),
        ("slices.mp4", forge.Parts.grayed),
        ("mbaff.mp4", forge.Parts.grayed),
    ],
)
def test_entries_that_cannot_be(
    clip: Clip, name: str, forgery: Callable[[forge.Parts], Iterator[tuple[int, bytes]]]
) -> None:
    """A picture in a list of references, marked as none, was released under it. Of two mid-gray
    ones the second had samples but no motion, which direct prediction read."""
    path = clip(name)
    refused = 0
    for packet, variant in forgery(forge.Parts.of(save(path), 90)):
        try:
            with VideoDecoder(path, saved_index=variant, on_stale="refuse") as decoder:
                around = range(max(0, packet - 8), min(packet + 9, len(decoder)))
                decoder.get_frames_at(list(around))
        except SparseError:
            refused += 1
    assert refused > 3


@pytest.mark.parametrize("name", ["pyramid.ts", "av1_annexb.obu"])
def test_packets_that_are_said_to_stand_in_the_file(clip: Clip, name: str) -> None:
    """Of an index whose packets don't: the demuxer isn't there to give them."""
    parts = forge.Parts.of(save(clip(name)), 90)
    size, at = forge.get_number(parts.head, 0)
    at += size  # behind the release
    for _ in range(5):  # size, two times, stream, whether it is the first
        _, at = forge.get_number(parts.head, at)
    assert parts.head[at] == 0
    parts.head = parts.head[:at] + b"\x02" + parts.head[at + 1 :]  # 1: direct
    decoder = VideoDecoder(clip(name), saved_index=parts.index(), on_stale="refuse")
    with pytest.raises(SavedIndexError, match="damaged"):
        decoder[20]


def test_other_versions_are_named(clip: Clip) -> None:
    path = clip("onekey.mp4")
    for place, value, words in ((8, 4, "byte order"), (12, 1, "format 1"), (12, 3, "format 3")):
        data = bytearray(save(path))
        data[place] = value
        with pytest.raises(SavedIndexError, match=words):
            VideoDecoder(path, saved_index=bytes(data), on_stale="refuse")


def test_a_file_that_is_written_to_raises(video: Path, clip: Clip) -> None:
    """In place, after the index was made: no frame of it may be given out."""
    other = Path(clip("slices.mp4")).read_bytes()
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


def test_changed_frames_of_av1_are_noticed(clip: Clip, tmp_path: Path) -> None:
    """By their beginning, even where dav1d takes what stands there now, and with any index."""
    path = Path(shutil.copy2(clip("av1_low_delay.mp4"), tmp_path / "video.mp4"))
    with av.open(str(path)) as container:
        places = [(p.pos, p.size) for p in container.demux(video=0) if p.size]
    # two that are of the same size: after the exchange all headers are in order
    sizes = [size for _, size in places]
    a, b = next(
        (i, j) for i, j in combinations(range(1, 30), 2) if sizes[i] == sizes[j] and j > i + 1
    )
    data, stamp = path.read_bytes(), path.stat()
    changed = bytearray(data)
    for (to, size), (at, _) in ((places[a], places[b]), (places[b], places[a])):
        changed[to : to + size] = data[at : at + size]
    saved = save(str(path))
    for index in (saved, None):
        decoder = VideoDecoder(path, saved_index=index, on_stale="refuse")
        if index is None:
            decoder.build_index()
        with path.open("r+b") as file:
            file.write(changed)
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        with pytest.raises(SourceError, match="another one"):
            decoder[a]
        with path.open("r+b") as file:
            file.write(data)
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        assert media.number_of(decoder[a]) == a


# -- places ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["folder", "all.sparseset"])
def test_folders_and_sets(clip: Clip, tmp_path: Path, where: str) -> None:
    place = tmp_path / where
    if where == "folder":
        place.mkdir()
    names = ["pyramid.mp4", "opengop.mp4", "hevc_opengop.mp4", "av1_pyramid.mkv", "av1_gop.mp4"]
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


def test_no_other_kind_of_file_is_replaced(video: Path, tmp_path: Path) -> None:
    notes, fifo = tmp_path / "notes.txt", tmp_path / "fifo"
    notes.write_text("precious")
    os.mkfifo(fifo)
    contents = video.read_bytes()
    for place in (video, notes):
        with (
            pytest.warns(SavedIndexWarning, match=r"can't be made: .*no saved index"),
            VideoDecoder(video, saved_index=place) as decoder,
        ):
            decoder.get_frames_at([3])
    with VideoDecoder(video) as decoder:
        for place in (video, notes, fifo):
            with pytest.raises(FileExistsError, match=str(place)):
                decoder.save_index(place)
        assert fifo.is_fifo()
        for name in ("index", "empty", "damaged.sparse"):
            (tmp_path / name).write_bytes(b"damaged" if "." in name else b"")
            decoder.save_index(tmp_path / name)
            assert decoder.save_index(tmp_path / name) == str(tmp_path / name)
    assert video.read_bytes() == contents
    assert notes.read_text() == "precious"
    with VideoDecoder(video, saved_index=tmp_path / "index", on_stale="refuse") as decoder:
        decoder.get_frames_at([3])


def test_command(video: Path, clip: Clip, capsys: pytest.CaptureFixture[str]) -> None:
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
    shutil.copy(clip("av1_linear.ivf"), video.parent)
    assert run(["index", str(video.parent)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 current, 1 unsupported")
    broken = video.with_name("broken.mp4")
    broken.write_bytes(video.read_bytes()[:500])
    assert run(["index", str(video.parent)]) == 1
    assert not broken.with_name("broken.mp4.sparse").exists()


def test_no_frames_at_all(tmp_path: Path) -> None:
    empty = tmp_path / "empty.mp4"
    empty.write_bytes(b"")
    with pytest.raises(SparseError, match="empty"):
        VideoDecoder(empty, saved_index="auto")


@pytest.mark.parametrize("name", ["pyramid.mp4", "av1_pyramid.mp4"])
def test_another_file_of_the_same_size_and_time(clip: Clip, tmp_path: Path, name: str) -> None:
    # as archives write them whose files all have one time
    first, second = tmp_path / "a.mp4", tmp_path / "b.mp4"
    data = Path(clip(name)).read_bytes()
    other = Path(clip("onekey.mp4")).read_bytes()
    size = max(len(data), len(other)) + 16
    for path, content in ((first, data), (second, other)):
        spare = size - len(content)
        path.write_bytes(content + spare.to_bytes(4, "big") + b"free" + bytes(spare - 8))
        os.utime(path, ns=(1, 1))
    index = save(str(first))
    with VideoDecoder(first, saved_index=index, on_stale="refuse") as decoder:
        assert media.number_of(decoder[5].data) == 5
    with pytest.raises(SavedIndexError, match="other contents"):
        VideoDecoder(second, saved_index=index, on_stale="refuse")
