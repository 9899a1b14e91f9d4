"""decode_batch: many sources in one call."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from os_threads import TASKS, count_threads, settled

from sparseframes import VideoDecoder, cache_info, clear_cache, decode_batch, errors

Clip = Callable[[str], str]
NAMES = ["pyramid.mp4", "onekey.mp4", "hevc_radl.mp4", "rotate90.mp4", "h264_130x98.mp4"]


def single(path: str, indices: list[int], **options: object) -> np.ndarray:
    with VideoDecoder(path, **options) as decoder:  # type: ignore[arg-type]
        data = decoder.get_frames_at(indices).data
    assert isinstance(data, np.ndarray)
    return data


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("order", ["NHWC", "NCHW"])
def test_many_files(clip: Clip, threads: int, order: str) -> None:
    items = [(clip(name), [3, 50, -1, 3]) for name in NAMES]
    wanted = [single(path, indices, dimension_order=order) for path, indices in items]
    clear_cache()
    got = decode_batch(items, threads=threads, dimension_order=order)
    assert len(got) == len(items)
    for data, expected in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(data, expected)


def test_items_of_one_source_share_a_reader(clip: Clip) -> None:
    path = clip("onekey.mp4")
    wanted = single(path, [40, 41])
    with VideoDecoder(path) as decoder:
        clear_cache()
        decoder.reset_stats()
        got = decode_batch([(decoder, [40]), (decoder, [41, 40]), (decoder, [40])], threads=2)
        assert decoder.stats.requests == 1
        assert decoder.stats.pictures_reconstructed == len(decoder.plan([40, 41]).reconstruct)
        assert decoder.stats.frames_returned == 4
        assert not decoder.closed
    np.testing.assert_array_equal(got[1], wanted[::-1])
    np.testing.assert_array_equal(got[2], wanted[:1])
    clear_cache()
    before = cache_info().misses
    decode_batch([(path, [40]), (Path(path), [40]), (path, [40])])
    with VideoDecoder(path) as decoder:
        assert cache_info().misses - before == len(decoder.plan([40]).reconstruct)


def test_all_kinds_of_sources(clip: Clip) -> None:
    path = clip("pyramid.mp4")
    data = Path(path).read_bytes()
    wanted = single(path, [7, 70])
    with VideoDecoder(path) as decoder:
        sources = [path, Path(path), data, io.BytesIO(data), decoder]
        got = decode_batch([(source, [7, 70]) for source in sources], threads=3)
    for values in got:
        np.testing.assert_array_equal(values, wanted)


def test_out(clip: Clip) -> None:
    items = [(clip("pyramid.mp4"), [1, 2]), (clip("onekey.mp4"), [60, 3])]
    wanted = np.stack([single(path, indices) for path, indices in items])
    out = np.zeros((2, 2, 96, 128, 3), np.uint8)
    got = decode_batch(items, threads=2, out=out)
    np.testing.assert_array_equal(out, wanted)
    assert all(np.shares_memory(values, out) for values in got)
    partly = [None, np.zeros((2, 96, 128, 3), np.uint8)]
    got = decode_batch(items, out=partly)
    assert got[1] is partly[1]
    np.testing.assert_array_equal(np.stack(got), wanted)
    with pytest.raises(errors.ArgumentError):
        decode_batch(items, out=out[:1])
    with pytest.raises(errors.ArgumentError, match=r"^item 1: "):
        decode_batch(items, out=[None, np.zeros((2, 1, 1, 3), np.uint8)])


def test_nothing_asked(clip: Clip) -> None:
    assert decode_batch([]) == []
    got = decode_batch([(clip("pyramid.mp4"), []), (clip("pyramid.mp4"), [4])], threads=2)
    assert got[0].shape == (0, 96, 128, 3)
    assert got[1].shape == (1, 96, 128, 3)


def test_other_codecs(clip: Clip) -> None:
    items = [(clip("mpeg4.avi"), [5, 2]), (clip("pyramid.mp4"), [5]), (clip("ffv1.mkv"), [3])]
    for values, (path, indices) in zip(decode_batch(items, threads=3), items, strict=True):
        np.testing.assert_array_equal(values, single(path, indices))


def test_two_requests_to_a_linear_reader(clip: Clip) -> None:
    path = clip("mpeg4.avi")
    frames = [list(range(0, 40, 3)), list(range(39, -1, -3))]
    wanted = [single(path, indices, dimension_order="NCHW") for indices in frames]
    # planes and interleaved pixels can't be had by one request
    planar = np.zeros(wanted[0].shape, np.uint8)
    interleaved = np.zeros(wanted[1].transpose(0, 2, 3, 1).shape, np.uint8).transpose(0, 3, 1, 2)
    for _ in range(20):
        items = [(path, indices) for indices in frames]
        got = decode_batch(items, threads=4, out=[planar, interleaved], dimension_order="NCHW")
        for values, expected in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(values, expected)
            values[:] = 0


def test_native_planes(clip: Clip) -> None:
    items = [(clip("h264_10bit.mp4"), [5, 2]), (clip("pyramid.mp4"), [5])]
    got = decode_batch(items, threads=2, pixel_format="native")
    for planes, (path, indices) in zip(got, items, strict=True):
        with VideoDecoder(path, pixel_format="native") as decoder:
            for plane, wanted in zip(planes, decoder.get_frames_at(indices).data, strict=True):
                np.testing.assert_array_equal(plane, wanted)


class _Broken(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError("the disk is gone")


@pytest.mark.parametrize("threads", [1, 3])
def test_a_bad_item_is_named(clip: Clip, tmp_path: Path, threads: int) -> None:
    good = (clip("pyramid.mp4"), [1, 2])
    with pytest.raises(errors.SourceError, match=r"^item 1: .*absent.mp4") as caught:
        decode_batch([good, (tmp_path / "absent.mp4", [0]), good], threads=threads)
    assert caught.value.item == 1
    with pytest.raises(errors.IndexError, match=r"^item 2: ") as outside:
        decode_batch([good, good, (clip("pyramid.mp4"), [0, 90])], threads=threads)
    assert (outside.value.item, outside.value.frame) == (2, 90)
    with pytest.raises(TypeError, match=r"^item 1: "):
        decode_batch([good, (7, [0])], threads=threads)
    with pytest.raises(TypeError, match=r"^item 0: "):
        decode_batch([(clip("pyramid.mp4"), [1.5])], threads=threads)
    with pytest.raises(TypeError, match=r"^item 1: "):
        decode_batch([good, clip("pyramid.mp4")], threads=threads)  # type: ignore[list-item]
    with pytest.raises(errors.SourceError, match=r"^item 1: ") as broken:
        decode_batch([good, (_Broken(Path(good[0]).read_bytes()), [0])], threads=threads)
    assert broken.value.item == 1

    data = bytearray(Path(clip("onekey.mp4")).read_bytes())
    for k in range(len(data) // 2, len(data) // 2 + 40):
        data[k] ^= 0x5A
    with pytest.raises(errors.DecodeError, match=r"^item 1: ") as damaged:
        decode_batch([good, (bytes(data), range(90)), good], threads=threads)
    assert damaged.value.item == 1
    assert damaged.value.frame is not None
    for values in decode_batch([good, good], threads=threads):
        np.testing.assert_array_equal(values, single(*good))


@pytest.mark.parametrize("threads", [0, 65, True, "2"])
def test_bad_threads(clip: Clip, threads: int) -> None:
    with pytest.raises(errors.ArgumentError):
        decode_batch([(clip("pyramid.mp4"), [0])], threads=threads)


@pytest.mark.skipif(not TASKS.is_dir(), reason="threads can't be counted")
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_no_more_threads_than_asked(clip: Clip, threads: int) -> None:
    paths = [clip(name) for name in NAMES]
    decoders = [VideoDecoder(path, threads=threads) for path in paths]
    for decoder in decoders:
        decoder.build_index()
    before = count_threads()
    most = 0
    stop = threading.Event()

    def watch() -> None:
        nonlocal most
        while not stop.is_set():
            most = max(most, count_threads())
            time.sleep(0)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(3):
        clear_cache()
        decode_batch([(decoder, range(60)) for decoder in decoders], threads=threads)
        assert settled(before + 1)
        decoders[0].get_all_frames()
        assert settled(before + 1)
    stop.set()
    watcher.join()
    assert settled(before)
    # the watcher itself
    assert most <= before + 1 + (threads - 1)
    if threads > 1:
        assert most > before + 1, "no helper was seen"
    for decoder in decoders:
        decoder.close()
    assert settled(before)


@pytest.mark.skipif(not TASKS.is_dir(), reason="threads can't be counted")
def test_no_thread_is_left_after_opening(clip: Clip, tmp_path: Path) -> None:
    before = count_threads()
    items: list[tuple[object, list[int]]] = [(clip(name), [3]) for name in NAMES]
    decode_batch(items, threads=4)
    assert settled(before)
    with pytest.raises(errors.SourceError):
        decode_batch([*items, (tmp_path / "absent.mp4", [0])], threads=4)
    assert settled(before)


def test_two_calls_at_once(clip: Clip) -> None:
    with VideoDecoder(clip("pyramid.mp4")) as one, VideoDecoder(clip("onekey.mp4")) as two:
        wanted = [one.get_frames_at([3, 9]).data, two.get_frames_at([3, 9]).data]
        failures: list[BaseException] = []

        def work(sources: list[VideoDecoder], expected: list[object]) -> None:
            try:
                for _ in range(20):
                    got = decode_batch([(source, [3, 9]) for source in sources], threads=2)
                    for values, those in zip(got, expected, strict=True):
                        np.testing.assert_array_equal(values, those)  # type: ignore[arg-type]
            except BaseException as error:
                failures.append(error)

        threads = [
            threading.Thread(target=work, args=([one, two], wanted)),
            threading.Thread(target=work, args=([two, one], wanted[::-1])),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "they wait for each other"
        assert not failures
