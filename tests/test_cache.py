"""Kept pictures and decoders that are used again: cheaper requests, the same pixels."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import numpy as np
import pytest

from sparseframes import (
    VideoDecoder,
    cache_info,
    clear_cache,
    errors,
    set_cache_budget,
)
from sparseframes._cache import DEFAULT_BUDGET

Clip = Callable[[str], str]


@pytest.fixture(autouse=True)
def _default_budget() -> Iterator[None]:
    set_cache_budget(DEFAULT_BUDGET)
    yield
    set_cache_budget(DEFAULT_BUDGET)


def settle(path: str) -> None:
    """Wait until a file isn't so new that a further change could go unnoticed."""
    time.sleep(max(0.0, Path(path).stat().st_ctime + 0.15 - time.time()))


def frames(path: str, indices: list[int]) -> np.ndarray:
    """The frames by a decoder that finds nothing kept."""
    set_cache_budget(0)
    with VideoDecoder(path) as decoder:
        data = decoder.get_frames_at(indices).data
    set_cache_budget(DEFAULT_BUDGET)
    assert isinstance(data, np.ndarray)
    return data


@pytest.mark.parametrize("name", ["pyramid.mp4", "onekey.mp4", "opengop.mp4", "hevc_radl.mp4"])
def test_a_second_decoder_finds_what_the_first_left(clip: Clip, name: str) -> None:
    path = clip(name)
    settle(path)
    wanted = frames(path, [40, 41])
    with VideoDecoder(path) as decoder:
        np.testing.assert_array_equal(decoder.get_frames_at([40, 41]).data, wanted)
        first = decoder.stats
        closure = decoder.plan([40, 41]).reconstruct
    assert first.pictures_reconstructed == len(closure)
    assert first.pictures_from_cache == 0
    with VideoDecoder(path) as decoder:
        np.testing.assert_array_equal(decoder.get_frames_at([40, 41]).data, wanted)
        second = decoder.stats
    assert second.pictures_from_cache > 0
    assert second.pictures_reconstructed < len(closure)
    assert second.pictures_reconstructed + second.pictures_from_cache <= len(closure)


@pytest.mark.parametrize("name", ["onekey.mp4", "hevc_radl.mp4"])
def test_reading_on_keeps_little(clip: Clip, name: str) -> None:
    """One piece after the other: nothing is decoded twice, and only what is needed next is kept."""
    path = clip(name)
    settle(path)
    wanted = frames(path, list(range(90)))
    kept, left = {}, {}
    for order in ("one after the other", "backwards"):
        clear_cache()
        before = cache_info().kept
        pieces = [list(range(first, first + 10)) for first in range(0, 90, 10)]
        with VideoDecoder(path) as decoder:
            for piece in pieces if order != "backwards" else reversed(pieces):
                np.testing.assert_array_equal(decoder.get_frames_at(piece).data, wanted[piece])
            if order != "backwards":
                assert decoder.stats.pictures_reconstructed == 90
        kept[order] = cache_info().kept - before
        left[order] = cache_info().pictures
    assert 0 < kept["one after the other"] < 0.9 * kept["backwards"]
    # what a piece has left for the next went with that one
    assert 0 < left["one after the other"] < 0.75 * kept["one after the other"]


def test_no_budget_keeps_nothing(clip: Clip) -> None:
    path = clip("onekey.mp4")
    set_cache_budget(0)
    with VideoDecoder(path) as decoder:
        for _ in range(2):
            decoder.reset_stats()
            decoder.get_frames_at([50])
            assert decoder.stats.pictures_reconstructed == len(decoder.plan([50]).reconstruct)
    assert cache_info().pictures == 0


def test_the_budget_holds(clip: Clip) -> None:
    path = clip("onekey.mp4")
    settle(path)
    wanted = frames(path, list(range(90)))
    set_cache_budget(1 << 20)
    with VideoDecoder(path) as decoder:
        for start in range(0, 90, 10):
            data = decoder.get_frames_at(range(start, start + 10)).data
            np.testing.assert_array_equal(data, wanted[start : start + 10])
            assert 0 < cache_info().bytes <= 1 << 20
    before = cache_info()
    assert before.dropped > 0
    set_cache_budget(before.bytes // 2)
    after = cache_info()
    assert 0 < after.bytes <= before.bytes // 2
    set_cache_budget(0)
    assert cache_info().bytes == cache_info().pictures == 0


@pytest.mark.parametrize("budget", [-1, 1 << 62])
def test_a_bad_budget(budget: int) -> None:
    with pytest.raises(errors.ArgumentError):
        set_cache_budget(budget)
    with pytest.raises(TypeError):
        set_cache_budget(1.5)  # type: ignore[arg-type]
    assert cache_info().budget == DEFAULT_BUDGET


def test_memory_is_known_by_its_key_alone(clip: Clip) -> None:
    data = Path(clip("onekey.mp4")).read_bytes()

    def kept(key: str | bytes | None) -> int:
        with VideoDecoder(data, cache_key=key) as decoder:
            decoder.get_frames_at([30])
            return decoder.stats.pictures_from_cache

    assert kept(None) == kept(None) == 0
    assert cache_info().pictures == 0, "what no other decoder can use goes with its own"
    assert kept("a") == 0
    assert kept("a") > 0
    assert kept(b"a") == 0, "a str and bytes are different keys"
    with pytest.raises(TypeError):
        VideoDecoder(data, cache_key=7)  # type: ignore[arg-type]


def test_a_decoder_of_memory_keeps_for_itself(clip: Clip) -> None:
    with VideoDecoder(Path(clip("onekey.mp4")).read_bytes()) as decoder:
        decoder.get_frames_at([60])
        decoder.reset_stats()
        decoder.get_frames_at([61])
        assert decoder.stats.pictures_from_cache > 0


def test_another_file_under_the_same_name(clip: Clip, tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    for name in ("pyramid.mp4", "onekey.mp4", "pyramid.mp4"):
        wanted = frames(clip(name), [20, 33])
        shutil.copy(clip(name), path)
        settle(str(path))
        with VideoDecoder(path) as decoder:
            np.testing.assert_array_equal(decoder.get_frames_at([20, 33]).data, wanted)
            assert decoder.stats.pictures_from_cache == 0


def test_a_file_that_was_just_written_is_not_trusted_to_stay(clip: Clip, tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    shutil.copy(clip("onekey.mp4"), path)
    with VideoDecoder(path) as decoder:
        decoder.get_frames_at([60])
    settle(str(path))
    with VideoDecoder(path) as decoder:
        decoder.get_frames_at([60])
        assert decoder.stats.pictures_from_cache == 0


def test_a_file_that_is_changed_again_under_its_decoder(clip: Clip, tmp_path: Path) -> None:
    # Right after it was written, so that the decoder shares nothing, and with its time put back:
    # only the time of the file's status tells.
    path = tmp_path / "clip.mp4"
    shutil.copy(clip("onekey.mp4"), path)
    with av.open(str(path)) as container:
        first = next(container.demux(video=0))
        end = first.pos + first.size
    with VideoDecoder(path) as decoder:
        before = decoder.get_frames_at([0]).data
        decoder.get_frames_at([0])
        assert decoder.stats.pictures_from_cache == 1
        times = path.stat()
        time.sleep(0.05)
        with path.open("r+b") as file:
            file.seek(end - 300)
            file.write(bytes(300))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        with contextlib.suppress(errors.DecodeError):
            assert not np.array_equal(decoder.get_frames_at([0]).data, before)
        assert decoder.stats.pictures_from_cache == 1


def test_streams_of_one_file_are_kept_apart(clip: Clip) -> None:
    path = clip("twovideo.mp4")
    for _ in range(2):
        for stream in (1, 2):
            wanted = frames_of_stream(path, stream)
            with VideoDecoder(path, stream_index=stream) as decoder:
                np.testing.assert_array_equal(decoder.get_frames_at([5]).data, wanted)


def frames_of_stream(path: str, stream: int) -> np.ndarray:
    set_cache_budget(0)
    with VideoDecoder(path, stream_index=stream) as decoder:
        data = decoder.get_frames_at([5]).data
    set_cache_budget(DEFAULT_BUDGET)
    assert isinstance(data, np.ndarray)
    return data


def test_decoders_are_used_again(clip: Clip) -> None:
    path = clip("pyramid.mp4")
    with VideoDecoder(path) as decoder:
        decoder.get_frames_at([7])
    before = cache_info()
    for _ in range(3):
        with VideoDecoder(path) as decoder:
            decoder.get_frames_at([50, 8])
    after = cache_info()
    assert after.decoders_opened == before.decoders_opened
    assert after.decoders_reused > before.decoders_reused
    assert 1 <= after.idle_decoders <= 16
    clear_cache()
    assert cache_info().idle_decoders == 0


def test_open_decoders_hold_no_context(clip: Clip) -> None:
    opened = [VideoDecoder(clip("pyramid.mp4")) for _ in range(30)]
    for decoder in opened:
        decoder.get_frames_at([3])
    info = cache_info()
    assert info.idle_decoders <= 2
    for decoder in opened:
        decoder.close()


PARTNERS = [
    "pyramid.mp4",
    "onekey.mp4",
    "opengop.mp4",
    "hevc_radl.mp4",
    "h264_10bit.mp4",
    "rotate90.mp4",
]


def test_any_sequence_of_calls_gives_what_a_fresh_decoder_gives(clip: Clip) -> None:
    rng = random.Random(5)
    paths = [clip(name) for name in PARTNERS]
    wanted = [frames(path, list(range(60))) for path in paths]
    clear_cache()
    set_cache_budget(3 << 20)  # so that pictures come and go
    opened: dict[tuple[int, str, int], VideoDecoder] = {}
    for _ in range(250):
        k = rng.randrange(len(paths))
        key = (k, rng.choice(["whole", "lazy"]), rng.choice([1, 3]))
        if rng.random() < 0.2 and key in opened:
            opened.pop(key).close()
        if key not in opened:
            opened[key] = VideoDecoder(paths[k], index=key[1], threads=key[2])  # type: ignore[arg-type]
        indices = [rng.randrange(60) for _ in range(rng.choice([1, 1, 2, 5, 10]))]
        np.testing.assert_array_equal(
            opened[key].get_frames_at(indices).data, wanted[k][indices], str((key, indices))
        )
        if rng.random() < 0.05:
            clear_cache()
    assert cache_info().hits > 0
    assert cache_info().dropped > 0
    for decoder in opened.values():
        decoder.close()


def test_several_threads_share_what_is_kept(clip: Clip) -> None:
    names = ["onekey.mp4", "pyramid.mp4", "hevc_radl.mp4"]
    paths = [clip(name) for name in names]
    wanted = [frames(path, list(range(60))) for path in paths]
    set_cache_budget(2 << 20)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in range(25):
                k = rng.randrange(len(paths))
                with VideoDecoder(paths[k]) as decoder:
                    indices = [rng.randrange(60) for _ in range(4)]
                    np.testing.assert_array_equal(
                        decoder.get_frames_at(indices).data, wanted[k][indices]
                    )
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_damage_is_refused_with_pictures_kept(clip: Clip, tmp_path: Path) -> None:
    data = bytearray(Path(clip("onekey.mp4")).read_bytes())
    # damage slice data in the middle of the file, where the pictures are
    for k in range(len(data) // 2, len(data) // 2 + 40):
        data[k] ^= 0x5A
    path = tmp_path / "damaged.mp4"
    path.write_bytes(data)
    settle(str(path))

    def outcome(decoder: VideoDecoder, index: int) -> object:
        try:
            return decoder.get_frame_at(index).data
        except errors.SparseError as error:
            return str(error)

    set_cache_budget(0)
    with VideoDecoder(path) as decoder:
        wanted = [outcome(decoder, k) for k in range(len(decoder))]
    assert any(isinstance(value, str) for value in wanted), "nothing is damaged"
    assert any(not isinstance(value, str) for value in wanted)
    set_cache_budget(DEFAULT_BUDGET)
    with VideoDecoder(path) as decoder:
        order = list(range(len(wanted))) * 2
        random.Random(1).shuffle(order)
        for k in order:
            np.testing.assert_array_equal(outcome(decoder, k), wanted[k])  # type: ignore[arg-type]
        assert decoder.stats.pictures_from_cache > 0


def _child(path: str, queue: object) -> None:
    with VideoDecoder(path) as decoder:
        data = decoder.get_frames_at([40]).data
        info = cache_info()
        queue.put((data, decoder.stats.pictures_from_cache, info.budget))  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_begins_with_nothing(clip: Clip) -> None:
    path = clip("onekey.mp4")
    settle(path)
    set_cache_budget(32 << 20)
    with VideoDecoder(path) as decoder:
        wanted = decoder.get_frames_at([40]).data
        assert cache_info().pictures > 0
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=_child, args=(path, queue))
        process.start()
        data, kept, budget = queue.get(timeout=60)
        process.join(60)
        assert process.exitcode == 0
        np.testing.assert_array_equal(data, wanted)
        assert (kept, budget) == (0, 32 << 20)
        # and the parent goes on
        decoder.reset_stats()
        np.testing.assert_array_equal(decoder.get_frames_at([40]).data, wanted)
        assert decoder.stats.pictures_from_cache > 0
