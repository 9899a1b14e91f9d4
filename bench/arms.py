"""The loaders that are compared, each used as its documentation says is quickest.

This module runs in the peers' environments, too, so it imports nothing of a loader's before that
loader is asked for. An arm opens a file, returns RGB frames [N, H, W, 3] by ascending display
indices, and closes the file; every decoder has one thread.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# frames that a decode of a whole file hands over at a time
CHUNK = 32
# of kept pictures, the package's default
BUDGET = 256 << 20


class Arm(ABC):
    """One loader. Its counters, where it has any, are those of the handle's lifetime."""

    exact = False
    """whether its pixels are to be those of the linear decode, byte for byte"""
    distributions: tuple[str, ...] = ()

    def __init__(self, **options: Any) -> None:
        self.options = options

    @abstractmethod
    def open(self, path: str) -> Any:
        """A handle for reading."""

    @abstractmethod
    def read(self, handle: Any, indices: Sequence[int]) -> Any:
        """Frames as an array [N, H, W, 3], or as a list of arrays [H, W, 3]."""

    def read_all(self, handle: Any, frames: int) -> Iterator[Any]:
        """All frames in order, some at a time."""
        for first in range(0, frames, CHUNK):
            yield self.read(handle, range(first, min(first + CHUNK, frames)))

    def close(self, handle: Any) -> None:  # noqa: B027 - most have nothing to close
        """Give the handle back."""

    def prepare(self, path: str) -> None:  # noqa: B027 - most have nothing to prepare
        """Called before each request, in no figure."""

    def pictures(self, handle: Any) -> int | None:
        """Pictures reconstructed since the handle was opened; None if nobody counts."""
        return None

    def versions(self) -> dict[str, str]:
        """The versions of what it runs on."""
        return {name: importlib.metadata.version(name) for name in self.distributions}


class Sparse(Arm):
    """This project. Options: saved, whether files are opened with a saved index; kept, whether
    pictures of earlier requests may be used again. Within a request they always are, as by default.
    """

    exact = True
    distributions = ("sparseframes",)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        import sparseframes

        self.module = sparseframes
        self.indexes: dict[str, str] = {}
        self.folder: Any = None
        if self.options.get("saved"):
            self.folder = tempfile.TemporaryDirectory()

    def prepare(self, path: str) -> None:
        if self.folder is not None and path not in self.indexes:
            target = str(Path(self.folder.name) / f"{len(self.indexes)}.sparse")
            with self.module.VideoDecoder(path) as decoder:
                decoder.save_index(target)
            self.indexes[path] = target
        if not self.options.get("kept"):
            # what is above the budget goes at once; idle decoders stay
            self.module.set_cache_budget(0)
            self.module.set_cache_budget(BUDGET)

    def open(self, path: str) -> Any:
        return self.module.VideoDecoder(path, saved_index=self.indexes.get(path))

    def read(self, handle: Any, indices: Sequence[int]) -> Any:
        return handle.get_frames_at(indices).data

    def close(self, handle: Any) -> None:
        handle.close()

    def pictures(self, handle: Any) -> int | None:
        count: int = handle.stats.pictures_reconstructed
        return count

    def versions(self) -> dict[str, str]:
        return {**super().versions(), "FFmpeg": self.module.ffmpeg_version()}


class LeRobot(Sparse):
    """This project as `sparseframes.lerobot` reads: with a lazy index, frames found by their times.

    That is all of its `decode_video_frames` but the tensor. An opened file is one that its cache
    of decoders has not seen before. The rate comes from the data set, and is in no figure.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        from sparseframes.lerobot import VideoDecoderCache

        self.cache = VideoDecoderCache
        self.rates: dict[str, float] = {}

    def prepare(self, path: str) -> None:
        super().prepare(path)
        if path not in self.rates:
            with self.module.VideoDecoder(path, index="lazy") as decoder:
                rate = decoder.metadata.average_fps_from_header
            if not rate:
                raise ValueError(f"{path}: the rate is not known")
            self.rates[path] = rate

    def open(self, path: str) -> Any:
        return self.cache(1).get(path), self.rates[path]

    def read(self, handle: Any, indices: Sequence[int]) -> Any:
        video, rate = handle
        # LeRobot's own tolerance
        return video.frames([index / rate for index in indices], 1e-4).data

    def close(self, handle: Any) -> None:
        super().close(handle[0].decoder)

    def pictures(self, handle: Any) -> int | None:
        return super().pictures(handle[0].decoder)


class PyAV(Arm):
    """Seeks to the key frame before a frame and decodes up to it.

    There is no seek when the next frame comes later in the same group of pictures, and the scaler
    is kept. Frames are found by their times, as LeRobot does it: nothing is known of the file but
    its rate. Counts the pictures it has decoded.
    """

    distributions = ("av",)

    def open(self, path: str) -> Any:
        return _PyAVFile(path)

    def read(self, handle: Any, indices: Sequence[int]) -> Any:
        return handle.read(indices)

    def read_all(self, handle: Any, frames: int) -> Iterator[Any]:
        return _chunks(handle.all())  # type: ignore[no-any-return]

    def close(self, handle: Any) -> None:
        handle.container.close()

    def pictures(self, handle: Any) -> int | None:
        return handle.decoded  # type: ignore[no-any-return]


class _PyAVFile:
    def __init__(self, path: str) -> None:
        import av
        from av.video.reformatter import VideoReformatter

        self.container = av.open(path)
        self.stream: Any = self.container.streams.video[0]
        self.stream.codec_context.thread_count = 1
        self.stream.thread_type = "NONE"
        self.scaler = VideoReformatter()
        self.ticks = 1 / (self.stream.average_rate * self.stream.time_base)
        self.start = self.stream.start_time or 0
        self.frames: Iterator[Any] | None = None
        self.last: int | None = None
        """pts of the frame decoded last"""
        self.decoded = 0

    def rgb(self, frame: Any) -> Any:
        return self.scaler.reformat(frame, format="rgb24", threads=1).to_ndarray()

    def segment(self, pts: int) -> int:
        return self.stream.index_entries.search_timestamp(pts)  # type: ignore[no-any-return]

    def seek(self, pts: int) -> None:
        self.container.seek(pts, stream=self.stream)
        self.frames = self.container.decode(self.stream)
        self.last = None

    def frame_at(self, pts: int) -> Any:
        """The frame whose time is the nearest to pts."""
        last = self.last
        if last is None or pts <= last or self.segment(pts) != self.segment(last):
            self.seek(pts)
        assert self.frames is not None
        back = 0
        while True:
            frame = next(self.frames, None)
            if frame is None:
                raise ValueError(f"no frame at {pts}")
            self.decoded += 1
            if self.last is None and frame.pts > pts + self.ticks / 2 and back < 5:
                # a key frame whose decoding time is before pts and whose own time is after it
                back += 1
                self.seek(pts - round(8 * 2**back * self.ticks))
                continue
            self.last = frame.pts
            if frame.pts >= pts - self.ticks / 2:
                return frame

    def read(self, indices: Sequence[int]) -> Any:
        return [self.rgb(self.frame_at(self.start + round(k * self.ticks))) for k in indices]

    def all(self) -> Iterator[Any]:
        for frame in self.container.decode(self.stream):
            self.decoded += 1
            yield self.rgb(frame)


class TorchCodec(Arm):
    """torchcodec; options: mode, "exact" or "approximate"."""

    distributions = ("torchcodec", "torch")

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        import torch
        from torchcodec.decoders import VideoDecoder

        torch.set_num_threads(1)
        self.decoder = VideoDecoder

    def open(self, path: str) -> Any:
        return self.decoder(
            path,
            seek_mode=self.options["mode"],
            num_ffmpeg_threads=1,
            dimension_order="NHWC",
        )

    def read(self, handle: Any, indices: Sequence[int]) -> Any:
        if isinstance(indices, range):
            return handle.get_frames_in_range(indices.start, indices.stop).data.numpy()
        return handle.get_frames_at(list(indices)).data.numpy()

    def versions(self) -> dict[str, str]:
        return {**super().versions(), "libavcodec": _mapped("libavcodec")}


class Decord(Arm):
    """decord, and decord2, which has the same interface."""

    def open(self, path: str) -> Any:
        import decord

        return decord.VideoReader(path, ctx=decord.cpu(0), num_threads=1)

    def read(self, handle: Any, indices: Sequence[int]) -> Any:
        return handle.get_batch(list(indices)).asnumpy()

    def versions(self) -> dict[str, str]:
        return {self.options["name"]: importlib.metadata.version(self.options["name"])}


class OpenCV(Arm):
    """cv2.VideoCapture: sets the position, or grabs on when the next frame is not far ahead."""

    distributions = ("opencv-python-headless",)
    ahead = 64

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        import cv2

        self.cv2 = cv2
        cv2.setNumThreads(1)

    def open(self, path: str) -> Any:
        capture = self.cv2.VideoCapture(path, self.cv2.CAP_FFMPEG, [self.cv2.CAP_PROP_N_THREADS, 1])
        if not capture.isOpened():
            raise ValueError(f"{path}: OpenCV can't open it")
        return {"capture": capture, "at": 0}

    def read(self, handle: Any, indices: Sequence[int]) -> Any:
        capture, frames = handle["capture"], []
        for index in indices:
            if not handle["at"] <= index <= handle["at"] + self.ahead:
                capture.set(self.cv2.CAP_PROP_POS_FRAMES, index)
                handle["at"] = index
            while handle["at"] < index and capture.grab():
                handle["at"] += 1
            ok, frame = capture.read()
            if not ok:
                raise ValueError(f"OpenCV has no frame {index}")
            handle["at"] += 1
            frames.append(self.cv2.cvtColor(frame, self.cv2.COLOR_BGR2RGB))
        return frames

    def close(self, handle: Any) -> None:
        handle["capture"].release()


class VideoReaderRs(Arm):
    """video-reader-rs, which chooses itself between seeking and reading on."""

    distributions = ("video-reader-rs",)

    def open(self, path: str) -> Any:
        from video_reader import PyVideoReader

        return {"path": path, "reader": PyVideoReader(path, threads=1)}

    def read(self, handle: Any, indices: Sequence[int]) -> Any:
        return handle["reader"].get_batch(list(indices))

    def read_all(self, handle: Any, frames: int) -> Iterator[Any]:
        return _chunks(iter(handle["reader"]))  # type: ignore[no-any-return]


class Jpeg(Arm):
    """One JPEG file a frame, in a folder, by simplejpeg (libjpeg-turbo)."""

    distributions = ("simplejpeg",)

    def open(self, path: str) -> Any:
        import simplejpeg

        return Path(path), simplejpeg.decode_jpeg

    def read(self, handle: Any, indices: Sequence[int]) -> Any:
        folder, decode = handle
        return [decode((folder / f"{k:06d}.jpg").read_bytes(), "RGB") for k in indices]

    def pictures(self, handle: Any) -> int | None:
        return None


def _chunks(frames: Iterable[Any]) -> Iterator[list[Any]]:
    chunk = []
    for frame in frames:
        chunk.append(frame)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _mapped(name: str) -> str:
    """The file of a library that this process has loaded."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            path = line.split(maxsplit=5)[-1]
            if Path(path).name.startswith(name):
                return Path(path).name
    return ""


ARMS: dict[str, tuple[type[Arm], dict[str, Any]]] = {
    "sparseframes": (Sparse, {}),
    "sparseframes saved": (Sparse, {"saved": True}),
    "sparseframes kept": (Sparse, {"kept": True}),
    "sparseframes lerobot": (LeRobot, {}),
    "pyav": (PyAV, {}),
    "torchcodec exact": (TorchCodec, {"mode": "exact"}),
    "torchcodec approximate": (TorchCodec, {"mode": "approximate"}),
    "decord2": (Decord, {"name": "decord2"}),
    "decord": (Decord, {"name": "decord"}),
    "opencv": (OpenCV, {}),
    "video-reader-rs": (VideoReaderRs, {}),
    "jpeg": (Jpeg, {}),
}
"""The arms by name, with their options."""


def make(name: str) -> Arm:
    """An arm, ready to open files; an error says why it can't be had."""
    kind, options = ARMS[name]
    return kind(**options)


def stack(frames: Any) -> list[np.ndarray]:
    """What an arm returned, as a list of arrays [H, W, 3]."""
    return [np.asarray(frame) for frame in frames]
