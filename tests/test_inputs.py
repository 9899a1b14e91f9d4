"""Sources of all kinds, other processes, and forks."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import media
import numpy as np
import pytest

import sparseframes
from sparseframes import VideoDecoder

Clip = Callable[[str], str]

NAMES = [
    "pyramid.mp4",
    "faststart.mp4",
    "fragmented.mp4",
    "pyramid.mkv",
    "pyramid.ts",
    "pyramid.264",
]


class Remote:
    """A file-like object as a network file system gives one.

    Reads may be short, only seeking from the start works, and none beyond the end is allowed.
    """

    def __init__(self, data: bytes, *, most: int = 1 << 30, size: bool = True) -> None:
        self.data = data
        self.most = most
        self.position = 0
        self.bytes_read = 0
        if size:
            self.size = len(data)

    def read(self, size: int = -1) -> bytes:
        assert size >= 0, "asked for everything"
        part = self.data[self.position : self.position + min(size, self.most)]
        self.position += len(part)
        self.bytes_read += len(part)
        return part

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence != 0:
            raise io.UnsupportedOperation("only from the start")
        assert 0 <= offset <= len(self.data), "beyond the end"
        self.position = offset
        return offset


def check(decoder: VideoDecoder, indices: tuple[int, ...] = (70, 3, 33)) -> None:
    batch = decoder.get_frames_at(indices)
    assert [media.number_of(pixels) for pixels in batch.data] == list(indices)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["path", "bytes", "bytearray", "memoryview", "array", "file"])
def test_kinds_of_source(clip: Clip, name: str, kind: str) -> None:
    data = Path(clip(name)).read_bytes()
    source: Any = {
        "path": Path(clip(name)),
        "bytes": data,
        "bytearray": bytearray(data),
        "memoryview": memoryview(b"\0" + data + b"\0")[1:-1],
        "array": np.frombuffer(data, np.uint8),
        "file": io.BytesIO(data),
    }[kind]
    with VideoDecoder(source) as decoder:
        assert len(decoder) == 90
        check(decoder)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", [{}, {"most": 1000}, {"size": False}])
def test_remote_files(clip: Clip, name: str, options: dict[str, Any]) -> None:
    remote = Remote(Path(clip(name)).read_bytes(), **options)
    with VideoDecoder(remote) as decoder:
        assert len(decoder) == 90
        check(decoder)


def test_real_file_objects(clip: Clip) -> None:
    for buffering in (-1, 0):
        with Path(clip("pyramid.mp4")).open("rb", buffering=buffering) as file:
            with VideoDecoder(file) as decoder:
                check(decoder)
                assert clip("pyramid.mp4") in repr(decoder)
            assert not file.closed


def test_memory_in_steps(clip: Clip) -> None:
    data = np.frombuffer(Path(clip("pyramid.mp4")).read_bytes(), np.uint8)
    apart = np.zeros(2 * len(data), np.uint8)
    apart[::2] = data
    for source in (apart[::2], memoryview(apart)[::2]):
        with VideoDecoder(source) as decoder:
            check(decoder)


def test_memory_lives_as_long_as_the_decoder(clip: Clip) -> None:
    decoder = VideoDecoder(bytearray(Path(clip("pyramid.mp4")).read_bytes()))
    filler = [bytearray(30_000) for _ in range(20)]
    check(decoder)
    del filler


@pytest.mark.parametrize("source", [None, 3, 1.5, object(), ["a.mp4"]])
def test_what_is_no_source(source: object) -> None:
    with pytest.raises(TypeError, match="source"):
        VideoDecoder(source)


def test_array_of_another_type() -> None:
    with pytest.raises(sparseframes.ArgumentError):
        VideoDecoder(np.zeros(10, np.int16))


def test_text_file(clip: Clip) -> None:
    with (
        Path(clip("text.mp4")).open(encoding="utf-8") as file,
        pytest.raises(TypeError, match="binary mode"),
    ):
        VideoDecoder(file)


def test_read_that_returns_text() -> None:
    class Text(Remote):
        def read(self, size: int = -1) -> str:  # type: ignore[override]
            return "x" * len(super().read(size))

    with pytest.raises(sparseframes.SourceError, match="binary mode") as caught:
        VideoDecoder(Text(b"x" * 100))
    assert isinstance(caught.value.__cause__, TypeError)


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class VerboseError(Exception):
    def __str__(self) -> str:
        return "word\n" * 100_000


@pytest.mark.parametrize("failure", [MuteError, VerboseError, KeyError])
def test_errors_of_the_file_are_told_briefly(failure: type[Exception]) -> None:
    class Breaks(Remote):
        def read(self, size: int = -1) -> bytes:
            raise failure

    with pytest.raises(sparseframes.SourceError, match=failure.__name__) as caught:
        VideoDecoder(Breaks(b"x" * 100))
    assert isinstance(caught.value.__cause__, failure)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


def test_errors_of_the_file_are_the_cause(clip: Clip) -> None:
    class Breaks(Remote):
        broken = False

        def read(self, size: int = -1) -> bytes:
            if self.broken:
                raise ConnectionError("gone")
            return super().read(size)

    remote = Breaks(Path(clip("faststart.mp4")).read_bytes())
    decoder = VideoDecoder(remote)
    remote.broken = True
    with pytest.raises(sparseframes.SparseError, match="ConnectionError: gone") as caught:
        decoder.get_frames_at([70, 3])
    assert isinstance(caught.value.__cause__, ConnectionError)
    remote.broken = False
    check(decoder)


@pytest.mark.parametrize("name", ["faststart.mp4", "hevc_opengop.mp4", "av1_gop.mp4"])
def test_any_read_that_fails_is_told(clip: Clip, name: str) -> None:
    class Breaks(Remote):
        left = 1 << 30

        def read(self, size: int = -1) -> bytes:
            self.left -= 1
            if self.left < 0:
                raise ConnectionError("gone")
            return super().read(size)

    data = Path(clip(name)).read_bytes()
    remote = Breaks(data)
    with VideoDecoder(remote) as decoder:
        expected = decoder[7].data
        reads = (1 << 30) - remote.left
    assert reads > 3
    for k in range(reads):
        remote = Breaks(data)
        remote.left = k
        with pytest.raises(sparseframes.SourceError) as caught, VideoDecoder(remote) as decoder:
            decoder[7]
        assert isinstance(caught.value.__cause__, ConnectionError)
    remote = Breaks(data)
    remote.left = reads
    with VideoDecoder(remote) as decoder:
        np.testing.assert_array_equal(decoder[7].data, expected)


def test_interrupt_in_the_file(clip: Clip) -> None:
    class Interrupted(Remote):
        def read(self, size: int = -1) -> bytes:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        VideoDecoder(Interrupted(Path(clip("pyramid.mp4")).read_bytes()))


def test_only_what_is_needed_is_read(clip: Clip, tmp_path: Path) -> None:
    # a file of some size, the sample table in front
    path = tmp_path / "long.mp4"
    media.encode(
        path,
        numbers=range(200),
        size=(320, 240),
        container_options={"movflags": "faststart"},
        g="20",
        crf="10",
    )
    remote = Remote(path.read_bytes())
    with VideoDecoder(remote) as decoder:
        assert media.number_of(decoder[165]) == 165
        assert remote.bytes_read < len(remote.data) // 3


# -- other processes ----------------------------------------------------------------------------


def test_pickle(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(clip("twovideo.mp4"))
    monkeypatch.chdir(path.parent)
    decoder = VideoDecoder(
        path.name, stream_index=2, dimension_order="NCHW", pixel_format="gray", threads=2
    )
    data = pickle.dumps(decoder)
    monkeypatch.chdir("/")
    again = pickle.loads(data)
    np.testing.assert_array_equal(again[5], decoder[5])
    assert again[5].shape == (1, 64, 64)


def test_pickle_of_what_has_no_path(clip: Clip) -> None:
    data = Path(clip("pyramid.mp4")).read_bytes()
    for source in (data, io.BytesIO(data)):
        with VideoDecoder(source) as decoder, pytest.raises(TypeError, match="pickled"):
            pickle.dumps(decoder)


def test_results_are_pickled(pyramid: VideoDecoder, clip: Clip) -> None:
    frame = pickle.loads(pickle.dumps(pyramid.get_frame_at(4)))
    assert media.number_of(frame.data) == 4
    assert pickle.loads(pickle.dumps(pyramid.plan([4]))).targets.tolist() == [4]
    with VideoDecoder(clip("pyramid.mp4"), pixel_format="native") as decoder:
        planes = pickle.loads(pickle.dumps(decoder[4]))
        assert planes.pixel_format == "yuv420p"


def number_at(decoder: VideoDecoder, index: int) -> int:
    return media.number_of(decoder[index])


def test_spawned_process(pyramid: VideoDecoder) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(count_of, (pyramid,)) == 90


def count_of(decoder: VideoDecoder) -> int:
    return len(decoder)


def in_child(work: Callable[[], bool]) -> bool:
    """Fork, and tell whether work is true in the child."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if work() else 1
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("threads", [1, 3])
def test_fork(clip: Clip, threads: int) -> None:
    data = Path(clip("pyramid.mp4")).read_bytes()
    for source in (clip("pyramid.mp4"), data):
        decoder = VideoDecoder(source, threads=threads)
        check(decoder)
        for _ in range(3):
            assert in_child(lambda d=decoder: number_at(d, 40) == 40 and number_at(d, -1) == 89)
            check(decoder)


def test_fork_with_a_file_object(clip: Clip) -> None:
    with Path(clip("pyramid.mp4")).open("rb") as file, VideoDecoder(file) as decoder:
        check(decoder)

        def refused() -> bool:
            try:
                decoder[0]
            except sparseframes.ClosedError as error:
                decoder.close()
                return "fork" in str(error)
            return False

        assert in_child(refused)
        check(decoder)


# a fork while threads run is what the test is about
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_while_another_thread_decodes(clip: Clip) -> None:
    decoder = VideoDecoder(clip("onekey.mp4"))
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            decoder.get_frames_at([80, 3])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(3):
            assert in_child(lambda: number_at(decoder, 40) == 40)
    finally:
        stop.set()
        thread.join()
    check(decoder)


# -- a lazy index ---------------------------------------------------------------------------------


class Watched(io.BytesIO):
    """A file-like object that notes which of its bytes are read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.touched = np.zeros(len(data), bool)

    def read(self, size: int | None = -1) -> bytes:
        start = self.tell()
        data = super().read(size)
        self.touched[start : start + len(data)] = True
        return data


def test_lazy_index_reads_the_touched_segment_alone(clip: Clip) -> None:
    path = clip("pyramid.mp4")  # an IDR every 30 packets
    with VideoDecoder(path) as whole:
        expected = whole.get_frame_at(70).data
        closure = whole.plan([70]).reconstruct
    with media.av.open(path) as container:
        packets = [(p.pos, p.size) for p in container.demux(video=0) if p.size]
    assert min(closure) >= 60

    source = Watched(Path(path).read_bytes())
    with VideoDecoder(source, index="lazy") as decoder:
        assert len(decoder) == 90
        source.touched[:] = False
        np.testing.assert_array_equal(decoder.get_frame_at(70).data, expected)
    touched = [k for k, (at, size) in enumerate(packets) if source.touched[at : at + size].any()]
    assert min(touched) == 60
    assert max(touched) < 90


def test_whole_index_reads_only_the_heads_of_long_packets(clip: Clip) -> None:
    path = clip("large.mp4")
    with VideoDecoder(path, index="whole") as decoder:
        assert len(decoder) == 12
        assert decoder.stats.bytes_read < Path(path).stat().st_size / 4
        assert decoder.stats.state_only_packets == 12


@pytest.mark.parametrize("mode", ["exact", "", None])
def test_index_mode_is_checked(clip: Clip, mode: Any) -> None:
    with pytest.raises(sparseframes.errors.ArgumentError, match="index"):
        VideoDecoder(clip("pyramid.mp4"), index=mode)


class Plain:
    """As little as a file-like object can be: seek() knows offsets from the start alone."""

    def __init__(self, data: bytes) -> None:
        self.file = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self.file.read(size)

    def seek(self, offset: int, *ignored: int) -> int:
        return self.file.seek(offset)


class Plainer(Plain):
    def seek(self, offset: int) -> int:  # type: ignore[override]
        return self.file.seek(offset)


@pytest.mark.parametrize("kind", [Plain, Plainer])
def test_seeking_from_the_start_is_enough(clip: Clip, kind: Callable[[bytes], Any]) -> None:
    with VideoDecoder(kind(Path(clip("pyramid.mp4")).read_bytes())) as decoder:
        assert len(decoder) == 90
        assert media.number_of(decoder[70]) == 70
