"""Crop, resize, planes and floats: what ffmpeg's filters give."""

from __future__ import annotations

import pickle
import shlex
import subprocess
from collections.abc import Callable
from typing import Any

import av
import av.filter
import numpy as np
import pytest

from sparseframes import VideoDecoder, decode_batch, errors
from sparseframes.encode._program import find_program

Clip = Callable[[str], str]

FILTERS = [
    "bicubic",
    "bilinear",
    "fast_bilinear",
    "neighbor",
    "area",
    "bicublin",
    "gauss",
    "sinc",
    "lanczos",
    "spline",
]


def filtered(
    path: str, filters: list[tuple[str, str]], pix_fmt: str, indices: list[int]
) -> np.ndarray:
    """Frames through a filter graph, the last filter being the conversion to pix_fmt."""
    found = {}
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        graph = av.filter.Graph()
        nodes: list[Any] = [graph.add_buffer(template=stream)]
        for name, arguments in filters:
            nodes.append(graph.add(name, arguments))
        nodes.append(graph.add("format", f"pix_fmts={pix_fmt}"))
        nodes.append(graph.add("buffersink"))
        graph.link_nodes(*nodes).configure()
        for k, frame in enumerate(container.decode(stream)):
            graph.push(frame)
            out = graph.pull()
            if k in indices:
                found[k] = out.to_ndarray()
    return np.stack([found[k] for k in indices])


CLIPS = ["pyramid.mp4", "h264_444_129x97.mp4", "h264_10bit.mp4", "h264_130x98.mp4"]


# each with all sizes; all names with the default one
@pytest.mark.parametrize(
    ("name", "kernel"), [(name, "bicubic") for name in CLIPS] + [(CLIPS[0], k) for k in FILTERS[1:]]
)
def test_resize_is_ffmpegs(clip: Clip, name: str, kernel: str) -> None:
    path = clip(name)
    for height, width in ((48, 64), (101, 77), (200, 320)):
        wanted = filtered(path, [("scale", f"{width}:{height}:flags={kernel}")], "rgb24", [3, 20])
        with VideoDecoder(path, resize=(height, width), resize_filter=kernel) as decoder:
            np.testing.assert_array_equal(decoder.get_frames_at([3, 20]).data, wanted)
            assert (decoder.metadata.height, decoder.metadata.width) == (height, width)


@pytest.mark.parametrize("name", CLIPS)
@pytest.mark.parametrize("crop", [(0, 0, 32, 48), (10, 6, 40, 64), (7, 5, 33, 47), (1, 1, 1, 1)])
def test_crop_is_ffmpegs(clip: Clip, name: str, crop: tuple[int, int, int, int]) -> None:
    path = clip(name)
    top, left, height, width = crop
    filters = [("crop", f"{width}:{height}:{left}:{top}:exact=1")]
    with VideoDecoder(path, crop=crop) as decoder:
        got = decoder.get_frames_at([3, 20]).data
    np.testing.assert_array_equal(got, filtered(path, filters, "rgb24", [3, 20]))
    filters.append(("scale", "40:30:flags=area"))
    options: dict[str, Any] = {"crop": crop, "resize": (30, 40), "resize_filter": "area"}
    with VideoDecoder(path, **options) as decoder:
        got = decoder.get_frames_at([3, 20]).data
    np.testing.assert_array_equal(got, filtered(path, filters, "rgb24", [3, 20]))


@pytest.mark.parametrize("name", ["pyramid.mp4", "h264_10bit.mp4"])
@pytest.mark.parametrize("pixel_format", ["rgb24", "gray"])
def test_filters_of_the_same_release(clip: Clip, name: str, pixel_format: Any) -> None:
    # later releases have other coefficients for gray of limited range
    try:
        program = find_program()
    except errors.SparseError as error:
        pytest.skip(f"needs the encoder program: {error}")
    path = clip(name)
    filters = "crop=47:33:5:7:exact=1,scale=40:30:flags=area"
    command = f"{program} -v error -threads 1 -i {path} -map 0:v:0 -vf {filters}"
    command += f" -fps_mode passthrough -pix_fmt {pixel_format} -f rawvideo -"
    done = subprocess.run(shlex.split(command), capture_output=True, check=True)
    options: dict[str, Any] = {"crop": (7, 5, 33, 47), "resize": (30, 40), "resize_filter": "area"}
    with VideoDecoder(path, pixel_format=pixel_format, **options) as decoder:
        got = decoder.get_all_frames().data
    assert isinstance(got, np.ndarray)
    assert done.stdout == got.tobytes()


def test_aligned_crops_need_no_exact(clip: Clip) -> None:
    path = clip("pyramid.mp4")
    wanted = filtered(
        path, [("crop", "64:48:32:16"), ("scale", "32:24:flags=bilinear")], "rgb24", [9]
    )
    with VideoDecoder(
        path, crop=(16, 32, 48, 64), resize=(24, 32), resize_filter="bilinear"
    ) as decoder:
        np.testing.assert_array_equal(decoder.get_frames_at([9]).data, wanted)


def test_a_crop_is_of_the_frame_as_it_is_returned(clip: Clip) -> None:
    for name in ("rotate90.mp4", "pyramid.mp4"):
        with VideoDecoder(clip(name)) as decoder:
            whole = decoder.get_frames_at([4]).data
        with VideoDecoder(clip(name), crop=(10, 6, 40, 30)) as decoder:
            part = decoder.get_frames_at([4]).data
            assert decoder.get_frames_at([]).data.shape == (0, 40, 30, 3)
            assert (decoder.metadata.height, decoder.metadata.width) == (40, 30)
        np.testing.assert_array_equal(part, whole[:, 10:50, 6:36])
    with VideoDecoder(clip("rotate90.mp4"), resize=(50, 20)) as decoder:
        assert decoder[4].shape == (50, 20, 3)


@pytest.mark.parametrize("name", [*CLIPS, "rotate90.mp4", "h264_gray.mp4"])
def test_planes(clip: Clip, name: str) -> None:
    with VideoDecoder(clip(name), dimension_order="NCHW") as decoder:
        wanted = np.ascontiguousarray(decoder.get_frames_at([3, 20, 3]).data)
        _, _, height, width = wanted.shape
        room = np.full((3, 3, height + 2, width + 5), 7, np.uint8)
        out = room[:, :, 1:-1, 2:-3]
        assert decoder.get_frames_at([3, 20, 3], out=out).data is out
        np.testing.assert_array_equal(out, wanted)
        out[...] = 7
        assert (room == 7).all(), "nothing is written beside the planes"
        packed = np.zeros_like(wanted)
        got = decode_batch([(decoder, [3]), (decoder, [20, 3])], out=[packed[:1], packed[1:]])
        assert np.shares_memory(got[0], packed)
        np.testing.assert_array_equal(packed, wanted)


@pytest.mark.parametrize("order", ["NHWC", "NCHW"])
@pytest.mark.parametrize("name", ["pyramid.mp4", "rotate90.mp4"])
def test_floats(clip: Clip, name: str, order: Any) -> None:
    with VideoDecoder(clip(name), dimension_order=order) as decoder:
        wanted = decoder.get_frames_at([3, 20]).data
    assert isinstance(wanted, np.ndarray)
    with VideoDecoder(clip(name), dimension_order=order, output_dtype="float32") as decoder:
        got = decoder.get_frames_at([3, 20]).data
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, wanted / np.float32(255))
        out = np.zeros(wanted.shape, np.float32)
        decoder.get_frames_at([3, 20], out=out)
        np.testing.assert_array_equal(out, got)
        with pytest.raises(errors.ArgumentError):
            decoder.get_frames_at([3, 20], out=np.zeros(wanted.shape, np.uint8))


@pytest.mark.parametrize(
    "options",
    [
        {"crop": (0, 0, 10)},
        {"crop": (-1, 0, 10, 10)},
        {"crop": (0, 0, 0, 10)},
        {"crop": (90, 0, 10, 10)},
        {"crop": (0, 120, 10, 10)},
        {"resize": (0, 10)},
        {"resize": (10,)},
        {"resize": (1 << 21, 10)},
        {"resize": (20, 10), "resize_filter": "cubic"},
        {"output_dtype": "float16"},
        {"resize": (20, 10), "pixel_format": "native"},
        {"output_dtype": "float32", "pixel_format": "native"},
    ],
)
def test_bad_options(clip: Clip, options: dict[str, Any]) -> None:
    with pytest.raises(errors.ArgumentError):
        VideoDecoder(clip("pyramid.mp4"), **options)


def test_options_go_with_a_pickle(clip: Clip) -> None:
    options: dict[str, Any] = {"crop": (2, 4, 40, 50), "resize": (20, 30), "output_dtype": "f4"}
    with VideoDecoder(clip("pyramid.mp4"), **options) as decoder:
        wanted = decoder[5]
        with pickle.loads(pickle.dumps(decoder)) as other:
            np.testing.assert_array_equal(other[5], wanted)
