"""VideoDecoder: every frame exactly, however it is asked for."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import media
import numpy as np
import pytest
from conftest import Linear

import sparseframes
from sparseframes import VideoDecoder, clear_cache
from sparseframes._orientation import Orientation
from sparseframes.validation.reference import own_frames, pyav_frames, pyav_planes

Clip = Callable[[str], str]


def assert_planes_equal(got: sparseframes.Planes, expected: list[np.ndarray]) -> None:
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def linear_rgb(decoder: VideoDecoder) -> list[np.ndarray]:
    with decoder._use() as reader:
        return [planes[0] for planes, _ in own_frames(reader, "rgb24", decoder._orientation)]


@pytest.mark.parametrize("name", media.IN_ORDER + media.OTHER_CODECS)
def test_every_frame_alone_and_in_disorder(name: str, clip: Clip, linear: Linear) -> None:
    expected = linear(name)
    with VideoDecoder(clip(name), pixel_format="native") as decoder:
        assert len(decoder) == len(expected)
        order = list(range(len(expected)))
        random.Random(name).shuffle(order)
        for index in order[:25]:
            assert_planes_equal(decoder[index], expected[index])
    with VideoDecoder(clip(name), pixel_format="native") as decoder:
        for frame in decoder.get_frames_at(order):
            assert_planes_equal(frame.data, expected[frame.index])


@pytest.mark.parametrize("name", media.IN_ORDER + media.OTHER_CODECS)
def test_rgb_shows_the_right_pictures(name: str, clip: Clip) -> None:
    with VideoDecoder(clip(name)) as decoder:
        expected = linear_rgb(decoder)
        order = random.Random(name).sample(range(len(decoder)), min(20, len(decoder)))
        batch = decoder.get_frames_at(order)
        assert batch.data.dtype == np.uint8
        assert batch.data.flags.c_contiguous
        for index, pixels in zip(order, batch.data, strict=True):
            assert media.number_of(pixels) == index
            np.testing.assert_array_equal(pixels, expected[index])


def test_edit_list_shows_what_ffmpeg_shows(clip: Clip, linear: Linear) -> None:
    with VideoDecoder(clip("editlist.mp4"), pixel_format="native") as decoder:
        assert len(decoder) == 70
        assert media.number_of(decoder[0][0]) == 20
        expected = linear("editlist.mp4")
        for index in (0, 1, 35, 69, 2):
            assert_planes_equal(decoder[index], expected[index])


def test_missing_first_key_frame(clip: Clip, linear: Linear) -> None:
    with VideoDecoder(clip("nofirstkey.ts"), pixel_format="native") as decoder:
        expected = linear("nofirstkey.ts")
        assert len(decoder) == len(expected) == 60
        assert media.number_of(decoder[0][0]) == 30
        for index in (59, 0, 30, 1):
            assert_planes_equal(decoder[index], expected[index])


def test_indices_of_all_kinds(pyramid: VideoDecoder) -> None:
    frame = pyramid[7]
    for index in (np.int64(7), np.uint8(7), 7 - 90, np.int16(7 - 90)):
        np.testing.assert_array_equal(pyramid[index], frame)
        assert pyramid.get_frame_at(index).index == 7
    for indices in ([7, -83], (7, 7), np.array([7, 7], np.uint16), range(7, 8), [np.int8(7)]):
        for pixels in pyramid.get_frames_at(indices).data:
            np.testing.assert_array_equal(pixels, frame)


@pytest.mark.parametrize(
    "key",
    [
        slice(None, 5),
        slice(80, None),
        slice(10, 50, 13),
        slice(50, 10, -7),
        slice(-5, None),
        slice(None, None, 30),
        slice(85, 1000),
        slice(5, 5),
        slice(np.int64(3), np.int32(6)),
    ],
)
def test_slices(pyramid: VideoDecoder, key: slice) -> None:
    wanted = list(range(90))[key]
    pixels = pyramid[key]
    assert pixels.shape == (len(wanted), 96, 128, 3)
    assert [media.number_of(one) for one in pixels] == wanted
    batch = pyramid.get_frames_in_range(key.start, key.stop, key.step)
    assert batch.indices.tolist() == wanted


@pytest.mark.parametrize("index", [90, -91, 10**6, 2**63, -(2**70)])
def test_index_outside(pyramid: VideoDecoder, index: int) -> None:
    for ask in (
        lambda: pyramid[index],
        lambda: pyramid.get_frame_at(index),
        lambda: pyramid.get_frames_at([0, index]),
        lambda: pyramid.plan([index]),
    ):
        with pytest.raises(sparseframes.IndexError, match=r"pyramid\.mp4.*90") as caught:
            ask()
        assert caught.value.file.endswith("pyramid.mp4")
        if abs(index) < 2**63:
            assert str(index) in str(caught.value)
            assert caught.value.frame == index
        assert isinstance(caught.value, IndexError)


@pytest.mark.parametrize("key", [True, np.True_, 1.0, "1", None, [1, 2], np.array([1, 2])])
def test_what_is_no_index(pyramid: VideoDecoder, key: object) -> None:
    with pytest.raises(TypeError):
        pyramid[key]


@pytest.mark.parametrize("indices", [3, "12", [1.0], [True], [None], np.array([0.5]), [[1]]])
def test_what_are_no_indices(pyramid: VideoDecoder, indices: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        pyramid.get_frames_at(indices)


def test_nothing_asked(pyramid: VideoDecoder, clip: Clip) -> None:
    for nothing in ([], (), range(0), np.zeros(0)):
        batch = pyramid.get_frames_at(nothing)
        assert batch.data.shape == (0, 96, 128, 3)
        assert len(batch) == len(batch.pts_seconds) == 0
    assert pyramid.plan([]).amplification == 0
    with VideoDecoder(clip("rotate90.mp4"), dimension_order="NCHW") as decoder:
        assert decoder.get_frames_at([]).data.shape == (0, 3, 128, 96)
    with VideoDecoder(clip("h264_10bit.mp4"), pixel_format="native") as decoder:
        assert [plane.shape for plane in decoder[0:0]] == [(0, 96, 128), (0, 48, 64), (0, 48, 64)]


def test_duplicates_cost_one_picture(clip: Clip) -> None:
    with VideoDecoder(clip("pyramid.mp4")) as decoder:
        batch = decoder.get_frames_at([30, 60, 30, 30, 60])
        assert decoder.stats.pictures_reconstructed == 2
        assert decoder.stats.frames_returned == 5
        assert batch.indices.tolist() == [30, 60, 30, 30, 60]
        np.testing.assert_array_equal(batch.data[0], batch.data[3])


# -- output -------------------------------------------------------------------------------------


def test_channels_first_is_a_view(clip: Clip, pyramid: VideoDecoder) -> None:
    with VideoDecoder(clip("pyramid.mp4"), dimension_order="NCHW") as decoder:
        assert decoder[4].shape == (3, 96, 128)
        np.testing.assert_array_equal(decoder[4].transpose(1, 2, 0), pyramid[4])
        np.testing.assert_array_equal(decoder.get_batch([4, 9]), pyramid.get_batch([4, 9]))
        out = np.zeros((2, 3, 96, 128), np.uint8)
        assert decoder.get_frames_at([4, 9], out=out).data is out
        np.testing.assert_array_equal(out.transpose(0, 2, 3, 1), pyramid.get_batch([4, 9]))


def test_gray(clip: Clip) -> None:
    with VideoDecoder(clip("pyramid.mp4"), pixel_format="gray") as decoder:
        batch = decoder.get_frames_at([5, 77])
        assert batch.data.shape == (2, 96, 128, 1)
        assert [media.number_of(one) for one in batch.data] == [5, 77]


@pytest.mark.parametrize(
    ("name", "shapes", "dtype", "depth"),
    [
        ("h264_10bit.mp4", [(96, 128), (48, 64), (48, 64)], np.uint16, 10),
        ("hevc_gray12.mp4", [(96, 128)], np.uint16, 12),
        ("h264_444_129x97.mp4", [(97, 129)] * 3, np.uint8, 8),
        ("h264_130x98.mp4", [(98, 130), (49, 65), (49, 65)], np.uint8, 8),
    ],
)
def test_native_planes(
    clip: Clip, name: str, shapes: list[tuple[int, int]], dtype: type, depth: int
) -> None:
    with VideoDecoder(clip(name), pixel_format="native") as decoder:
        planes = decoder[1]
        assert [plane.shape for plane in planes] == shapes
        assert all(plane.dtype == dtype for plane in planes)
        assert planes.depth == depth
        batch = decoder.get_frames_at([1, 2])
        assert [plane.shape for plane in batch.data] == [(2, *shape) for shape in shapes]
        assert isinstance(batch[0].data, sparseframes.Planes)
        out = [np.empty((2, *shape), dtype) for shape in shapes]
        decoder.get_frames_at([1, 2], out=out)
        assert_planes_equal(planes, [plane[0] for plane in out])


def test_out(pyramid: VideoDecoder, clip: Clip) -> None:
    expected = pyramid.get_batch([50, 3, 50])
    whole = np.full((3, 100, 140, 3), 7, np.uint8)
    inside = whole[:, 2:98, 5:133]
    for out in (
        np.empty((3, 96, 128, 3), np.uint8),
        inside,
        np.empty((3, 96, 256, 3), np.uint8)[:, :, ::2],
        np.empty((3, 96, 128, 3), np.uint8)[:, ::-1],
        np.empty((6, 96, 128, 3), np.uint8)[::-2],
        np.empty((3, 96, 3, 128), np.uint8).transpose(0, 1, 3, 2),
    ):
        batch = pyramid.get_frames_at([50, 3, 50], out=out)
        assert batch.data is out
        np.testing.assert_array_equal(out, expected)
    inside[...] = 7
    assert (whole == 7).all(), "nothing is written beside the rows"
    with VideoDecoder(clip("rotate90.mp4")) as turned:
        out = np.zeros((1, 128, 96, 3), np.uint8)
        turned.get_frames_at([3], out=out)
        np.testing.assert_array_equal(out[0], np.rot90(pyramid[3], -1))


def test_out_that_does_not_fit(pyramid: VideoDecoder) -> None:
    fixed = np.zeros((1, 96, 128, 3), np.uint8)
    fixed.flags.writeable = False
    for out in (
        np.zeros((2, 96, 128, 3), np.uint8),
        np.zeros((1, 128, 96, 3), np.uint8),
        np.zeros((1, 96, 128, 3), np.int8),
        fixed,
    ):
        with pytest.raises(sparseframes.ArgumentError, match="out "):
            pyramid.get_frames_at([0], out=out)
    with pytest.raises(TypeError):
        pyramid.get_frames_at([0], out=[0])


def test_rotation_is_applied(clip: Clip, pyramid: VideoDecoder) -> None:
    with VideoDecoder(clip("rotate90.mp4")) as decoder:
        metadata = decoder.metadata
        assert (metadata.width, metadata.height, metadata.rotation) == (96, 128, -90)
        for index in (3, 88, 3):
            np.testing.assert_array_equal(decoder[index], np.rot90(pyramid[index], -1))
            assert decoder[index].flags.c_contiguous
    with VideoDecoder(clip("rotate90.mp4"), pixel_format="native") as decoder:
        # planes come as they are coded
        assert decoder[3][0].shape == (96, 128)


def test_mirroring_is_applied(clip: Clip, pyramid: VideoDecoder) -> None:
    with VideoDecoder(clip("mirror.mp4")) as decoder:
        np.testing.assert_array_equal(decoder[3], pyramid[3][:, ::-1])


def test_orientations() -> None:
    # what a viewer sees of a 2x3 picture
    frames = np.arange(6, dtype=np.uint8).reshape(1, 2, 3, 1)
    assert Orientation(90).view(frames)[0, ..., 0].tolist() == [[3, 0], [4, 1], [5, 2]]
    assert Orientation(270).view(frames)[0, ..., 0].tolist() == [[2, 5], [1, 4], [0, 3]]
    assert Orientation(180).view(frames)[0, ..., 0].tolist() == [[5, 4, 3], [2, 1, 0]]
    assert Orientation(0, True).view(frames)[0, ..., 0].tolist() == [[2, 1, 0], [5, 4, 3]]
    assert Orientation(90).size(3, 2) == (2, 3)


def test_size_that_changes(clip: Clip, linear: Linear) -> None:
    expected = linear("resize.ts")
    with VideoDecoder(clip("resize.ts"), pixel_format="native") as decoder:
        assert len(decoder) == 60
        for index in (45, 3, 29, 30, 59):
            assert_planes_equal(decoder[index], expected[index])
        with pytest.raises(sparseframes.UnsupportedError):
            decoder.get_frames_at([3, 45])
        sizes = [planes[0].shape for planes in decoder]
        assert sizes == [(96, 128)] * 30 + [(120, 160)] * 30
    with VideoDecoder(clip("resize.ts")) as decoder:
        assert decoder.get_frames_at([45, 44]).data.shape == (2, 120, 160, 3)


# -- the rest -----------------------------------------------------------------------------------


def test_iteration(pyramid: VideoDecoder) -> None:
    assert [media.number_of(pixels) for pixels in pyramid] == list(range(90))
    # stopping early costs nothing later
    for _ in zip(pyramid, range(3), strict=False):
        pass
    assert media.number_of(pyramid[80]) == 80


def test_all_frames_and_results(pyramid: VideoDecoder) -> None:
    batch = pyramid.get_all_frames()
    assert len(batch) == 90
    assert batch.indices.tolist() == list(range(90))
    assert batch.pts_seconds.dtype == np.float64
    assert [frame.index for frame in batch] == list(range(90))
    part = batch[10:14]
    assert isinstance(part, sparseframes.FrameBatch)
    assert part.indices.tolist() == [10, 11, 12, 13]
    data, pts, duration = batch[-1]
    assert media.number_of(data) == 89
    assert pts == pytest.approx(89 / 30)
    assert duration > 0
    assert "(90, 96, 128, 3)" in repr(batch)
    assert "index=89" in repr(batch[-1])


def test_metadata(pyramid: VideoDecoder, clip: Clip) -> None:
    metadata = pyramid.metadata
    assert metadata.num_frames == metadata.num_frames_from_content == 90
    assert (metadata.width, metadata.height) == (128, 96)
    assert metadata.codec == "h264"
    assert metadata.pixel_format == "yuv420p"
    assert metadata.average_fps == pytest.approx(30, rel=0.05)
    assert metadata.duration_seconds == pytest.approx(3, rel=0.05)
    assert metadata.begin_stream_seconds == pytest.approx(0, abs=1e-9)
    assert metadata.end_stream_seconds == metadata.duration_seconds
    assert metadata.rotation is None
    assert metadata.sparse
    assert "yuv420p" in repr(metadata)
    with VideoDecoder(clip("mpeg4.avi")) as decoder:
        assert not decoder.metadata.sparse


def test_last_frame_is_as_long_as_the_others(pyramid: VideoDecoder) -> None:
    assert pyramid.get_frame_at(-1).duration_seconds == pytest.approx(1 / 30)
    assert pyramid.metadata.end_stream_seconds == pytest.approx(3)


def test_key_frames(pyramid: VideoDecoder) -> None:
    assert pyramid.key_frame_indices == [0, 30, 60]
    assert pyramid._get_key_frame_indices() == [0, 30, 60]


def test_streams(clip: Clip, linear: Linear) -> None:
    with VideoDecoder(clip("twovideo.mp4"), pixel_format="native") as decoder:
        assert decoder.metadata.stream_index == 1
        assert_planes_equal(decoder[9], linear("twovideo.mp4")[9])
    with VideoDecoder(clip("twovideo.mp4"), stream_index=2, pixel_format="native") as decoder:
        assert decoder[0][0].shape == (64, 64)
        assert_planes_equal(decoder[9], linear("twovideo.mp4", 1)[9])
    for index in (0, 9):
        with pytest.raises(sparseframes.SparseError):
            VideoDecoder(clip("twovideo.mp4"), stream_index=index)


def test_plan(pyramid: VideoDecoder) -> None:
    plan = pyramid.plan([31, 2, 31])
    assert plan.targets.tolist() == [2, 31]
    assert len(plan.reconstruct) >= 2
    assert (np.diff(plan.reconstruct) > 0).all()
    assert plan.amplification == len(plan.reconstruct) / 2
    assert plan.bytes > 0
    assert plan.linear_count >= len(plan.reconstruct)
    assert pyramid.stats.pictures_reconstructed == 0
    closure = set(plan.reconstruct.tolist())
    for picture in closure:
        assert set(plan.references(picture)) <= closure
    with pytest.raises(KeyError):
        plan.references(10**6)
    key = pyramid.plan([30])
    assert len(key.reconstruct) == 1
    assert key.references(key.reconstruct[0]) == ()


@pytest.mark.parametrize("name", ["pyramid.mp4", "onekey.mp4", "opengop.mp4", "hevc_radl.mp4"])
def test_cost_is_the_closure(clip: Clip, name: str) -> None:
    for indices in ([40], [3, 50, 7], [80, 10, 80], list(range(20, 40))):
        clear_cache()
        with VideoDecoder(clip(name)) as decoder:
            plan = decoder.plan(indices)
            decoder.get_frames_at(indices)
            assert decoder.stats.pictures_reconstructed == len(plan.reconstruct)


def test_pictures_nobody_needs_are_left_out(clip: Clip) -> None:
    with VideoDecoder(clip("onekey.mp4")) as decoder:
        wanted = range(0, 90, 30)
        decoder.get_frames_at(wanted)
        stats = decoder.stats
        assert stats.pictures_reconstructed < 60
        assert stats.pictures_reconstructed < decoder.plan(wanted).linear_count


@pytest.mark.parametrize("name", ["onekey.mp4", "hevc_opengop.mp4", "av1_pyramid.mp4"])
def test_stats_tell_where_the_time_goes(clip: Clip, name: str) -> None:
    passes, indexes, shares = [], [], []
    for _ in range(7):  # a busy machine may stop any of them
        with VideoDecoder(clip(name), index="whole") as decoder:
            begun = time.perf_counter()
            decoder.build_index()
            passes.append(time.perf_counter() - begun)
        clear_cache()
        with VideoDecoder(clip(name), index="whole") as decoder:
            begun = time.perf_counter()
            decoder.get_frames_at([70])
            taken = time.perf_counter() - begun
            stats = decoder.stats
        clear_cache()
        indexes.append(stats.index_seconds)
        spent = stats.index_seconds + stats.decode_seconds + stats.convert_seconds
        shares.append(spent / taken)
        # nothing is counted twice
        assert spent <= taken
    assert max(indexes) > min(passes) / 2
    assert max(shares) > 0.5


def test_stats(pyramid: VideoDecoder) -> None:
    pyramid.get_frames_at([1, 2, 3])
    assert pyramid.stats.frames_returned == 3
    assert pyramid.stats.requests == 1
    pyramid.reset_stats()
    assert pyramid.stats.frames_returned == 0


def test_build_index(pyramid: VideoDecoder) -> None:
    seen: list[float] = []
    pyramid.build_index(seen.append)
    assert all(0 <= share <= 1 for share in seen)
    assert media.number_of(pyramid[50]) == 50


def test_build_index_stops(clip: Clip) -> None:
    def stop(share: float) -> None:
        raise ZeroDivisionError

    with VideoDecoder(clip("pyramid.ts")) as decoder:
        # a short file may be read before the first call
        with contextlib.suppress(ZeroDivisionError):
            decoder.build_index(stop)
        assert media.number_of(decoder[50]) == 50


@pytest.mark.parametrize("threads", [2, 4])
def test_worker_threads(clip: Clip, linear: Linear, threads: int) -> None:
    for name in ("pyramid.mp4", "opengop.mp4", "hevc_opengop.mp4"):
        expected = linear(name)
        with VideoDecoder(clip(name), pixel_format="native", threads=threads) as decoder:
            for frame in decoder.get_frames_at(range(89, -1, -1)):
                assert_planes_equal(frame.data, expected[frame.index])
            for index in (3, 70, 41):
                assert_planes_equal(decoder[index], expected[index])


def test_one_decoder_and_many_threads(pyramid: VideoDecoder) -> None:
    wrong: list[object] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in range(15):
                indices = rng.sample(range(90), 3)
                batch = pyramid.get_batch(indices)
                if [media.number_of(one) for one in batch] != indices:
                    wrong.append(indices)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_close_during_reads(clip: Clip) -> None:
    decoder = VideoDecoder(clip("onekey.mp4"))
    ended: list[BaseException] = []

    def work() -> None:
        try:
            while True:
                decoder.get_frames_at([80, 5, 40])
        except BaseException as error:
            ended.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    decoder.close()
    for thread in threads:
        thread.join(10)
    assert [type(error) for error in ended] == [sparseframes.ClosedError] * 3


@pytest.mark.parametrize(
    ("pix_fmt", "left", "count"),
    [
        ("yuv420p", 2, 12),
        ("yuv420p10le", 2, 12),
        ("yuv420p10le", 32, 12),
        ("yuv422p10le", 4, 12),
        ("yuv444p", 3, 12),
        ("yuv444p10le", 3, 0),  # FFmpeg can't crop these
        ("yuv444p10le", 0, 12),
    ],
)
@pytest.mark.parametrize("index", ["auto", "whole"])
def test_cropping_on_the_left(
    tmp_path: Path, pix_fmt: str, left: int, count: int, index: Any
) -> None:
    path = tmp_path / "a.mp4"
    options = {"x264-params": f"crop-rect={left},2,4,2:keyint=6:bframes=2"}
    media.encode(path, numbers=range(12), size=(96, 64), pix_fmt=pix_fmt, **options)
    expected = list(pyav_frames(str(path)))
    assert len(expected) == count
    with VideoDecoder(path, index=index, pixel_format="native") as decoder:
        assert len(decoder) == count
        for k, frame in enumerate(expected):
            assert_planes_equal(decoder[k], pyav_planes(frame))


def test_many_opened_and_left(clip: Clip) -> None:
    for k in range(50):
        decoder = VideoDecoder(clip("pyramid.mp4"))
        if k % 10 == 0:
            assert media.number_of(decoder[k]) == k
        for _ in zip(decoder, range(1), strict=False):
            break


def resident() -> int:
    """Resident memory in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def test_memory_stays_flat(clip: Clip) -> None:
    def some(times: int) -> None:
        for k in range(times):
            decoder = VideoDecoder(clip("pyramid.mp4"))
            decoder.get_frames_at([k % 90, 3])
            if k % 2:
                decoder.close()

    some(60)
    before = resident()
    some(300)
    with VideoDecoder(clip("onekey.mp4")) as decoder:
        for k in range(300):
            decoder.get_frames_at([(7 * k) % 90])
    assert resident() - before < 8 << 20
