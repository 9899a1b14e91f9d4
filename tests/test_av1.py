"""AV1: closures by frame headers, whatever the stream is made of."""

from __future__ import annotations

import logging
import pickle
import random
import struct
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import media
import numpy as np
import pytest
from os_threads import count_threads, settled

import sparseframes
from sparseframes import VideoDecoder
from sparseframes._binding import Request, get_batch
from sparseframes.validation.reference import (
    Reference,
    digest,
    own_reference,
    pyav_frames,
    pyav_planes,
)

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "av1"
# SVT-AV1 reorders, hides and shows again; each name tells what is odd about the stream
STREAMS: dict[str, dict[str, Any]] = {
    "g2": {"g": "2", "svtav1-params": "scd=0"},  # as LeRobot's data sets
    "pyramid": {"g": "120"},  # frames that are hidden first, and shown later
    "gop": {"g": "17"},
    "ten_bit": {"g": "24", "pix_fmt": "yuv420p10le"},
    "grain": {"g": "24", "svtav1-params": "film-grain=30"},
    "odd_size": {"g": "24", "size": (130, 98)},
    "low_delay": {"g": "30", "svtav1-params": "pred-struct=1"},
}
CONTAINERS = ("mp4", "mkv", "webm", "ivf", "obu")


def make(path: Path, name: str, numbers: range = range(60)) -> Path:
    options = dict(STREAMS[name])
    size, pix_fmt = options.pop("size", (128, 96)), options.pop("pix_fmt", "yuv420p")
    media.encode(
        path, "libsvtav1", numbers=numbers, size=size, pix_fmt=pix_fmt, preset="10", **options
    )
    return path


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("av1")

    def get(name: str) -> Path:
        """The path of "STREAM.CONTAINER"."""
        path = folder / name
        if not path.exists():
            make(path, name.partition(".")[0])
        return path

    return get


def own(source: object) -> Reference:
    """The library's own linear decode."""
    with VideoDecoder(source, pixel_format="native") as decoder, decoder._use() as reader:
        return own_reference(reader, "native", decoder._orientation)


def requests(count: int, seed: int) -> Iterator[list[int]]:
    """Random ones, with repeats and in any order, and every frame alone."""
    choose = random.Random(seed)
    for _ in range(12):
        yield [choose.randrange(count) for _ in range(choose.randrange(1, 6))]
    order = list(range(count))
    choose.shuffle(order)
    yield from ([k] for k in order[:20])


def digests(decoder: VideoDecoder, wanted: list[int]) -> list[bytes]:
    """Of the frames of one request."""
    planes = decoder.get_frames_at(wanted).data
    return [digest([plane[k] for plane in planes]) for k in range(len(wanted))]


def check(source: object, expected: list[bytes], seed: int = 1, **options: Any) -> None:
    """Requests on one decoder, whose history grows, against the digests of a linear decode."""
    with VideoDecoder(source, pixel_format="native", **options) as decoder:
        assert len(decoder) == len(expected)
        for wanted in requests(len(expected), seed):
            assert digests(decoder, wanted) == [expected[k] for k in wanted]


# -- exactness ------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", STREAMS)
def test_equals_linear_decodes(stream: str, streams: Callable[[str], Path]) -> None:
    path = streams(f"{stream}.mp4")
    reference = own(str(path))
    assert reference.damaged_from is None
    frames = pyav_frames(str(path))
    assert reference.digests == [digest(pyav_planes(frame)) for frame in frames]
    assert len(reference.digests) == 60
    check(str(path), reference.digests)
    check(str(path), reference.digests, seed=2, index="lazy")


@pytest.mark.parametrize("container", CONTAINERS)
def test_containers(container: str, streams: Callable[[str], Path]) -> None:
    path = streams(f"pyramid.{container}")
    check(str(path), own(str(streams("pyramid.mp4"))).digests)


def test_sound_between(clip: Callable[[str], str]) -> None:
    path = clip("av1_sound.mp4")
    with av.open(path) as container:
        places = [(p.pos, p.stream.type) for p in container.demux() if p.size]
    kinds = [kind for _, kind in sorted(places)]
    assert kinds.count("video") == 30
    assert sum(a != b for a, b in pairwise(kinds)) > 4
    expected = own(path).digests
    check(path, expected)
    check(path, expected, index="lazy")


def test_reads_of_small_packets_reach_into_the_next(clip: Callable[[str], str]) -> None:
    with VideoDecoder(clip("av1_low_delay.mp4")) as decoder:
        decoder.build_index()
        stats = decoder.stats
        assert stats.state_only_packets == 90
        assert 10 < stats.packets_read < 60
        assert stats.bytes_read < Path(clip("av1_low_delay.mp4")).stat().st_size * 1.5
        assert [media.number_of(decoder[k]) for k in (89, 3, 31)] == [89, 3, 31]


def test_shows_the_right_pictures(streams: Callable[[str], Path]) -> None:
    with VideoDecoder(str(streams("pyramid.mp4"))) as decoder:
        order = list(range(60))
        random.Random(3).shuffle(order)
        assert [media.number_of(decoder[k]) for k in order] == order
        assert decoder.metadata.codec == "av1"


def test_times_and_kinds(streams: Callable[[str], Path]) -> None:
    path = str(streams("gop.mp4"))
    with av.open(path) as container:
        shown = list(container.decode(video=0))
    with VideoDecoder(path) as decoder:
        frames = decoder.get_frames_at(range(60))
        assert frames.pts_seconds.tolist() == pytest.approx([float(f.time) for f in shown])
        keys = decoder._get_key_frame_indices()
        assert list(keys) == [k for k, frame in enumerate(shown) if frame.key_frame]


def test_an_edit_list(streams: Callable[[str], Path], tmp_path: Path) -> None:
    # the list begins 20 frames later: those are decoded and not shown
    data = streams("pyramid.mp4").read_bytes()
    with av.open(str(streams("pyramid.mp4"))) as container:
        step = int(1 / media.FPS / container.streams.video[0].time_base)
    at = data.index(b"elst") + 12
    (media_time,) = struct.unpack(">i", data[at + 4 : at + 8])
    path = tmp_path / "editlist.mp4"
    path.write_bytes(data[: at + 4] + struct.pack(">i", media_time + 20 * step) + data[at + 8 :])
    expected = own(str(path)).digests
    assert len(expected) == 40
    check(str(path), expected)
    with VideoDecoder(str(path)) as decoder:
        assert [media.number_of(decoder[k]) for k in (0, 39, 17)] == [20, 59, 37]


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"there is no {CORPUS}")
@pytest.mark.parametrize(
    "name",
    [
        "dav1d_8-bit_data_00000071.ivf",  # hidden frames
        "dav1d_8-bit_issues_326_order_hint_bits_1.ivf",
        "dav1d_10-bit_argon_test5606.obu",  # short signaling, sizes from references, film grain
        "dav1d_10-bit_argon_test185_302.obu",  # new sequences, super-resolution
        "dav1d_8-bit_features_annexb.obu",
        "dav1d_8-bit_svc_av1-1-b8-22-svc-L2T2.ivf",  # layers, decoded linearly
        "dav1d_8-bit_resize_av1-1-b8-03-sizeup.ivf",
        "vkcts_av1-argon_test787.obu",
        "vkcts_av1-176x144-main-basic-8.ivf",  # no order hints
        "dav1d_12-bit_features_lossless.ivf",
        "torchcodec_gradient.avif",
    ],
)
def test_corpus(name: str) -> None:
    path = str(CORPUS / name)
    expected = own(path).digests
    with VideoDecoder(path, pixel_format="native") as decoder:
        assert len(decoder) == len(expected)
        for wanted in requests(len(expected), 7):
            assert [digest(list(decoder[k])) for k in wanted] == [expected[k] for k in wanted]


# -- cost -----------------------------------------------------------------------------------------


def test_decodes_only_the_closure(streams: Callable[[str], Path]) -> None:
    with VideoDecoder(str(streams("pyramid.mp4"))) as decoder:
        plan = decoder.plan([50])
        decoder[50]
        assert decoder.stats.pictures_reconstructed == len(plan.reconstruct)
        # a linear decode takes all frames from the first to this one
        assert len(plan.reconstruct) < 25 < 50 <= plan.linear_count


def test_goes_on_from_where_it_is(streams: Callable[[str], Path]) -> None:
    # a frame that was hidden first isn't decoded again when it is shown
    with VideoDecoder(str(streams("pyramid.mp4"))) as decoder:
        for k in range(60):
            assert media.number_of(decoder[k]) == k
        assert decoder.stats.pictures_reconstructed <= 62
        assert decoder.stats.pictures_from_cache > 0


def test_another_decoder_of_the_file_goes_on(streams: Callable[[str], Path]) -> None:
    path = str(streams("pyramid.mkv"))
    with VideoDecoder(path) as decoder:
        decoder[40]
    with VideoDecoder(path) as decoder:
        assert media.number_of(decoder[41]) == 41
        assert decoder.stats.pictures_reconstructed < len(decoder.plan([41]).reconstruct)
    # another file with as many frames has nothing to do with them
    with VideoDecoder(str(streams("gop.mp4"))) as decoder:
        assert media.number_of(decoder[42]) == 42


def test_a_batch_with_other_codecs(
    streams: Callable[[str], Path], clip: Callable[[str], str]
) -> None:
    items: list[tuple[str, list[int]]] = [
        (str(streams("pyramid.mp4")), [33, 2, 33]),
        (clip("pyramid.mp4"), [7, 80]),
        (str(streams("gop.mp4")), [59, 18, 0]),
        (str(streams("pyramid.mp4")), [34]),
    ]
    for threads in (1, 3):
        sparseframes.clear_cache()
        batch = sparseframes.decode_batch(items, threads=threads)
        for (_, wanted), frames in zip(items, batch, strict=True):
            assert [media.number_of(frame) for frame in frames] == wanted


def test_pickled(streams: Callable[[str], Path]) -> None:
    with VideoDecoder(str(streams("gop.mp4")), dav1d_threads=2) as decoder:
        again = pickle.loads(pickle.dumps(decoder))
    assert again._dav1d_threads == 2
    assert media.number_of(again[21]) == 21


def test_a_lazy_index(streams: Callable[[str], Path]) -> None:
    for name in ("gop.mp4", "g2.mp4", "pyramid.mp4"):
        sparseframes.clear_cache()
        path = str(streams(name))
        with (
            VideoDecoder(path, index="lazy") as lazy,
            VideoDecoder(path) as whole,
        ):
            assert len(lazy) == 60
            # from the key frame to the target
            key = max(k for k in whole.key_frame_indices if k <= 40)
            assert media.number_of(lazy[40]) == 40
            assert lazy.stats.state_only_packets == 41 - key
            for wanted in ([40], [3, 58], [7, 8, 20, 59]):
                a, b = lazy.plan(wanted), whole.plan(wanted)
                assert a.reconstruct.tolist() == b.reconstruct.tolist()
                assert a.linear_count == b.linear_count
            lazy.build_index()
            assert [media.number_of(lazy[k]) for k in (41, 0, 59)] == [41, 0, 59]


def test_a_lazy_index_takes_no_word_that_is_wrong(
    streams: Callable[[str], Path], tmp_path: Path
) -> None:
    # samples that are marked as key frames and are none
    path = tmp_path / "marked.mp4"
    data = streams("pyramid.mp4").read_bytes()
    at = data.index(b"stss")
    path.write_bytes(data[:at] + b"free" + data[at + 4 :])  # all samples are key frames, then
    expected = own(str(path)).digests
    check(str(path), expected, index="lazy")


@pytest.fixture
def damaged_header(streams: Callable[[str], Path], tmp_path: Path) -> Path:
    """gop.mp4 with a unit in packet 40 that is longer than the packet."""
    path = tmp_path / "damaged.mp4"
    data = bytearray(streams("gop.mp4").read_bytes())
    with av.open(str(streams("gop.mp4"))) as container:
        at = [packet.pos for packet in container.demux(video=0) if packet.size][40]
    assert data[at] & 2  # a unit with a size
    data[at + 1] = 0x7F
    path.write_bytes(bytes(data))
    return path


def test_a_lazy_index_meets_a_damaged_header(damaged_header: Path) -> None:
    path = damaged_header
    expected = own(str(path)).digests
    assert len(expected) < 60
    with VideoDecoder(str(path), pixel_format="native", index="lazy") as decoder:
        assert digest(list(decoder[5])) == expected[5]
        assert decoder.metadata.sparse
        frame(decoder, 40)
        assert not decoder.metadata.sparse
        assert len(decoder) == len(expected)
        assert digest(list(decoder[5])) == expected[5]


@pytest.mark.parametrize("frames", [(5, 50), (50, 5), (6, 5, 50)])
def test_a_batch_meets_a_damaged_header(damaged_header: Path, frames: tuple[int, ...]) -> None:
    with VideoDecoder(damaged_header) as decoder:
        expected = [decoder[k] for k in frames]
    with VideoDecoder(damaged_header, index="lazy") as decoder, decoder._use() as reader:
        # what one request finds out of the reader holds for those that were planned before it
        got = [np.zeros((1, *pixels.shape), np.uint8) for pixels in expected]
        height, width, _ = expected[0].shape
        requests = [
            Request(reader, "rgb24", width, height, [np.array([k])], [place])
            for k, place in zip(frames, got, strict=True)
        ]
        assert get_batch(requests, 2) is None
    np.testing.assert_array_equal(np.concatenate(got), np.stack(expected))


# -- threads --------------------------------------------------------------------------------------


def peak_threads(work: Callable[[], object]) -> int:
    """The most threads beyond those from before, while work runs."""
    before, most, done = count_threads(), 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.0005):
            most = max(most, count_threads())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return max(0, most - before - 1)


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_dav1d_threads(count: int, streams: Callable[[str], Path]) -> None:
    path = str(streams("pyramid.mp4"))
    expected = own(path).digests
    sparseframes.clear_cache()

    def work() -> None:
        check(path, expected, dav1d_threads=count)

    before = count_threads()
    most = peak_threads(work)
    if count:
        # one thread is the caller's own
        assert most <= (count if count > 1 else 0)
    # none waits for another decoder
    assert settled(before)


def test_threads_over_groups(streams: Callable[[str], Path]) -> None:
    path = str(streams("gop.mp4"))
    expected = own(path).digests
    with VideoDecoder(path, pixel_format="native", threads=3) as decoder:
        wanted = list(range(0, 60, 7))
        for _ in range(3):
            assert digests(decoder, wanted) == [expected[k] for k in wanted]


def test_dav1d_threads_from_the_environment(
    streams: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(streams("g2.mp4"))
    for value in ("0", "1", "2", "256"):
        monkeypatch.setenv("SPARSEFRAMES_DAV1D_THREADS", value)
        with VideoDecoder(path) as decoder:
            assert decoder._dav1d_threads == int(value)
    for value in ("", "257", "-1", "two", "1.5", " 2", "٢", "99999999999999999999"):
        monkeypatch.setenv("SPARSEFRAMES_DAV1D_THREADS", value)
        with pytest.raises(sparseframes.ArgumentError, match="SPARSEFRAMES_DAV1D_THREADS"):
            VideoDecoder(path)
        with VideoDecoder(path, dav1d_threads=1) as decoder:  # the argument goes before it
            assert media.number_of(decoder[9]) == 9
    monkeypatch.delenv("SPARSEFRAMES_DAV1D_THREADS")
    for bad in (-1, 257, True, 1.0, "2"):
        with pytest.raises(sparseframes.ArgumentError, match="dav1d_threads"):
            VideoDecoder(path, dav1d_threads=bad)  # type: ignore[arg-type]


# -- damage ---------------------------------------------------------------------------------------


def frame(decoder: VideoDecoder, index: int) -> bytes | None:
    """The digest of a frame, None where it can't be had."""
    try:
        return digest(list(decoder[index]))
    except (sparseframes.DecodeError, sparseframes.UnsupportedError, sparseframes.SourceError):
        return None


def ivf(all_units: list[tuple[int, bytes]]) -> bytes:
    """The units in an IVF file, a packet for each temporal unit."""
    packets: list[bytes] = []
    for kind, unit in all_units:
        if kind == 2:
            packets.append(b"")
        packets[-1] += unit
    head = struct.pack("<4sHH4sHHIIII", b"DKIF", 0, 32, b"AV01", 128, 96, 30, 1, len(packets), 0)
    return head + b"".join(
        struct.pack("<IQ", len(packet), k) + packet for k, packet in enumerate(packets)
    )


def without_first_frame(all_units: list[tuple[int, bytes]]) -> bytes:
    """An IVF file that begins within a group."""
    first = next(i for i, (kind, _) in enumerate(all_units) if kind in (3, 6))
    return ivf(all_units[:first] + all_units[first + 1 :])


def test_a_stream_that_begins_without_its_key_frame(streams: Callable[[str], Path]) -> None:
    # frames whose references are missing give nothing, in a linear decode as here
    all_units = media.av1_units(streams("low_delay.obu").read_bytes())
    whole = own(str(streams("low_delay.mp4"))).digests
    check(ivf(all_units), whole)
    data = without_first_frame(all_units)
    expected = own(data).digests
    assert expected == whole[30:]
    check(data, expected)
    with VideoDecoder(data) as decoder:
        decoder.build_index()
        assert decoder.metadata.sparse
    # dav1d doesn't get over an order to show a frame that isn't there
    data = without_first_frame(media.av1_units(streams("gop.obu").read_bytes()))
    assert own(data).digests == []
    with VideoDecoder(data) as decoder:
        assert len(decoder) == 0


def equal_or_refused(source: bytes) -> tuple[int, int]:
    """Ask for all frames in order; the numbers of those that are right and of those refused.

    Where dav1d refuses a frame it puts out none, and a linear decode has lower numbers from there
    on. Frames before are the same, and once the damage was met, frames after it are refused.
    """
    expected = own(source).digests
    with VideoDecoder(source, pixel_format="native") as decoder:
        got = [frame(decoder, k) for k in range(len(decoder))]
    right = sum(digest is not None for digest in got)
    assert [d for d in got if d is not None] == [
        expected[k] for k, d in enumerate(got) if d is not None
    ]
    return right, len(got) - right


def test_frames_that_are_left_out(streams: Callable[[str], Path]) -> None:
    # the frame that is gone leaves other frames in its slots
    all_units = media.av1_units(streams("pyramid.obu").read_bytes())
    frames = [i for i, (kind, _) in enumerate(all_units) if kind in (3, 6)]
    for gone in (frames[5], frames[20], frames[33]):
        right, _ = equal_or_refused(ivf(all_units[:gone] + all_units[gone + 1 :]))
        assert right >= 3


def test_repeated_sequence_headers_change_nothing(streams: Callable[[str], Path]) -> None:
    all_units = media.av1_units(streams("pyramid.obu").read_bytes())
    header = next(unit for kind, unit in all_units if kind == 1)
    data = b"".join(unit + header if kind == 2 else unit for kind, unit in all_units)
    check(data, own(str(streams("pyramid.mp4"))).digests)


def test_two_streams_one_after_the_other(streams: Callable[[str], Path]) -> None:
    # a new sequence in the middle, of another size and depth
    data = b"".join(streams(f"{name}.obu").read_bytes() for name in ("odd_size", "ten_bit"))
    expected = own(data).digests
    assert len(expected) == 120
    with VideoDecoder(data, pixel_format="native") as decoder:
        for k in (119, 3, 60, 59, 61, 0, 90, 20):
            assert digest(list(decoder[k])) == expected[k]


def test_bit_flips_and_truncations(streams: Callable[[str], Path]) -> None:
    original = streams("gop.obu").read_bytes()
    choose = random.Random(5)
    right = refused = 0
    for variant in range(40):
        data = bytearray(original)
        if variant % 4 == 3:
            del data[choose.randrange(len(data)) :]
        else:
            for _ in range(choose.choice((1, 1, 3))):
                data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
        try:
            outcome = equal_or_refused(bytes(data))
        except (sparseframes.SourceError, sparseframes.UnsupportedError):
            continue
        right += outcome[0]
        refused += outcome[1]
    assert right > 800
    assert refused > 10


def test_damage_is_named_and_remembered(streams: Callable[[str], Path]) -> None:
    # zeros for the tiles of a frame in the second group
    all_units = media.av1_units(streams("gop.obu").read_bytes())
    at = next(i for i, (kind, u) in enumerate(all_units) if i > 30 and kind == 6 and len(u) > 90)
    kind, unit = all_units[at]
    all_units[at] = (kind, unit[:30] + bytes(len(unit) - 30))
    data = ivf(all_units)
    right, refused = equal_or_refused(data)
    assert right > 10
    assert refused > 0
    with VideoDecoder(data, pixel_format="native") as decoder:
        with pytest.raises(sparseframes.DecodeError, match=r"frame \d+: damaged data in packet"):
            decoder.get_frames_at(range(60))
        with pytest.raises(sparseframes.DecodeError, match="frame 59: it comes after damaged data"):
            decoder[59]
        assert frame(decoder, 0) == own(data).digests[0]
    # numbered by a linear decode, what comes after the damage can be had
    expected = own(data).digests
    with VideoDecoder(data, pixel_format="native", index="decoded") as decoder:
        assert len(decoder) == len(expected)
        last = len(expected) - 1
        assert frame(decoder, last) == expected[last]
        assert not decoder.metadata.sparse


def test_what_dav1d_says_goes_to_the_log(
    streams: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    # the last OBU says that it is longer than its packet
    all_units = media.av1_units(streams("gop.obu").read_bytes())
    kind, unit = all_units[-1]
    all_units[-1] = (kind, bytes([unit[0], 0xFF, 0x7F]) + unit[2:])
    data = ivf(all_units)
    with caplog.at_level(logging.DEBUG, logger="sparseframes"):
        right, refused = equal_or_refused(data)
    assert right + refused == 59
    assert any("Error parsing OBU data" in record.getMessage() for record in caplog.records)


def test_nothing_on_stderr(
    streams: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(streams("pyramid.obu").read_bytes())
    for at in range(2000, len(data), 997):
        data[at] ^= 0xFF
    try:
        with VideoDecoder(bytes(data)) as decoder:
            for k in range(len(decoder)):
                frame(decoder, k)
    except sparseframes.SparseError:
        pass
    assert capfd.readouterr() == ("", "")


def test_pixels_are_the_same_as_rgb(streams: Callable[[str], Path]) -> None:
    path = str(streams("grain.mp4"))
    with av.open(path) as container:
        expected = [f.to_ndarray(format="rgb24") for f in container.decode(video=0)]
    with VideoDecoder(path) as decoder:
        for k in (31, 5, 58):
            # PyAV's own conversion is another one: near, not equal
            difference = np.abs(decoder[k].astype(int) - expected[k].astype(int))
            assert difference.mean() < 2
