"""Random encoder settings, random requests, random order of calls: what a fresh decoder gives."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import av
import media
import numpy as np
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from synthetic.random_streams import random_h264, random_hevc

import sparseframes
from sparseframes import VideoDecoder
from sparseframes.validation.reference import digest, own_reference, pyav_reference

COUNT = 26
SIZE = (64, 48)

x264 = st.fixed_dictionaries(
    {
        "keyint": st.sampled_from([1, 2, 7, 12, 250]),
        "bframes": st.integers(0, 7),
        "ref": st.integers(1, 6),
        "b-pyramid": st.sampled_from(["none", "strict", "normal"]),
        "open-gop": st.integers(0, 1),
        "weightp": st.integers(0, 2),
        "slices": st.integers(1, 3),
        "cabac": st.integers(0, 1),
        "b-adapt": st.integers(0, 2),
        "direct": st.sampled_from(["spatial", "temporal", "none"]),
        "interlaced": st.sampled_from([0, 0, 1]),
        "intra-refresh": st.sampled_from([0, 0, 1]),
        "aud": st.integers(0, 1),
        "qp": st.integers(5, 45),
    }
)
x265 = st.fixed_dictionaries(
    {
        "keyint": st.sampled_from([1, 2, 7, 12, 250]),
        "bframes": st.integers(0, 7),
        "ref": st.integers(1, 5),
        "b-pyramid": st.integers(0, 1),
        "open-gop": st.integers(0, 1),
        "radl": st.sampled_from([0, 0, 2]),
        "slices": st.integers(1, 2),
        "wpp": st.integers(0, 1),
        "b-adapt": st.integers(0, 2),
        "temporal-layers": st.integers(0, 1),
        "temporal-mvp": st.integers(0, 1),
        "repeat-headers": st.integers(0, 1),
        "qp": st.integers(5, 45),
    }
)
suffixes = st.sampled_from(["mp4", "mkv", "ts", "raw"])
index = st.integers(0, COUNT - 1)
calls = st.lists(
    st.one_of(
        st.tuples(st.just("at"), st.lists(index, min_size=1, max_size=5)),
        st.tuples(st.just("one"), index),
        st.tuples(st.just("range"), st.tuples(index, index, st.integers(1, 5))),
        st.tuples(st.just("plan"), st.lists(index, min_size=1, max_size=3)),
        st.tuples(st.just("rgb"), index),
        st.tuples(st.just("clear"), st.none()),
    ),
    min_size=1,
    max_size=7,
)
few = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    # shrinking would take minutes of encoding
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def same_in_any_order(path: Path, series: list[tuple[str, Any]], *, lazy: bool) -> None:
    """Make these calls on one decoder; each frame is that of a linear decode, or damaged."""
    options: Any = {"index": "lazy" if lazy else "whole"}
    with VideoDecoder(path, pixel_format="native") as decoder, decoder._use() as reader:
        expected = own_reference(reader, "native", decoder._orientation).digests
    count = len(expected)
    assert count
    with (
        VideoDecoder(path, pixel_format="native", **options) as decoder,
        VideoDecoder(path, **options) as second,
    ):
        assert len(decoder) == count
        for call, argument in series:
            try:
                if call == "at":
                    wanted = [k % count for k in argument]
                    batch = decoder.get_frames_at(wanted)
                    assert [digest(list(one.data)) for one in batch] == [
                        expected[k] for k in wanted
                    ]
                elif call == "one":
                    assert digest(list(decoder[argument % count])) == expected[argument % count]
                elif call == "range":
                    start, stop, step = argument
                    batch = decoder.get_frames_in_range(start, stop, step)
                    assert [digest(list(one.data)) for one in batch] == expected[start:stop:step]
                elif call == "plan":
                    wanted = sorted({k % count for k in argument})
                    assert decoder.plan(wanted).targets.tolist() == wanted
                elif call == "rgb":
                    # another reader of the same file, with which pictures may be shared
                    with VideoDecoder(path, **options) as fresh:
                        np.testing.assert_array_equal(
                            second[argument % count], fresh[argument % count]
                        )
                else:
                    sparseframes.clear_cache()
            except sparseframes.DecodeError:
                continue


def joined(params: dict[str, Any]) -> str:
    return ":".join(f"{key}={value}" for key, value in params.items())


def encode(path: Path, encoder: str, frames: int, options: dict[str, str]) -> None:
    """Encode; settings that the encoder or the muxer doesn't take are passed over."""
    try:
        media.encode(path, encoder, numbers=range(frames), size=SIZE, **options)
    except av.error.FFmpegError:
        reject()


@few
@given(params=x264, suffix=suffixes, series=calls, lazy=st.booleans(), frames=st.integers(1, COUNT))
def test_x264(params: dict[str, Any], suffix: str, series: Any, lazy: bool, frames: int) -> None:
    suffix = {"raw": "264"}.get(suffix, suffix)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a.{suffix}"
        encode(path, "libx264", frames, {"x264-params": joined(params)})
        same_in_any_order(path, series, lazy=lazy)


@few
@given(params=x265, suffix=suffixes, series=calls, lazy=st.booleans(), frames=st.integers(1, COUNT))
def test_x265(params: dict[str, Any], suffix: str, series: Any, lazy: bool, frames: int) -> None:
    suffix = {"raw": "hevc"}.get(suffix, suffix)
    if suffix in ("hevc", "ts"):
        # nothing else has the parameter sets
        params = {**params, "repeat-headers": 1}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a.{suffix}"
        encode(path, "libx265", frames, {"x265-params": joined(params)})
        same_in_any_order(path, series, lazy=lazy)


@settings(few, max_examples=30)
@given(seed=st.integers(0, 10**6), hevc=st.booleans(), series=calls)
def test_random_structure(seed: int, hevc: bool, series: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("a.hevc" if hevc else "a.264")
        path.write_bytes((random_hevc if hevc else random_h264)(seed, groups=2))
        reference = pyav_reference(str(path))
        assert reference.damaged_from is None
        same_in_any_order(path, series, lazy=False)
