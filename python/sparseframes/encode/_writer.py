"""New files from arrays of pixels."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sparseframes.encode._check import check_ddra
from sparseframes.encode._program import EncodeError, failure_of, start, stop, whole_file
from sparseframes.encode._settings import Settings
from sparseframes.encode._transcode import container, output_arguments
from sparseframes.errors import ArgumentError

# RGB is converted once, here, by the matrix that the file then names
COLOUR = (
    "scale=out_color_matrix=bt709:out_range=limited:flags=bicubic+accurate_rnd+full_chroma_int,"
    "setparams=color_primaries=bt709:color_trc=bt709"
)


class Encoder:
    """Writes a file from arrays, as a context manager.

    The file is there whole, when the block ends, or not at all when an exception leaves it.

    ::

        with Encoder("episode.mp4", fps=30) as encoder:
            for image in images:          # uint8 [H, W, 3]
                encoder.write(image)

    Args:
        path: the file to write: .mp4, .m4v, .mov or .mkv.
        fps: frames a second, a number or a `Fraction`.
        codec, period, crf, preset, threads, profile, tune, pixel_format, idr, params, force: as
            `transcode` takes them. The pixel format is yuv420p for even sizes, else yuv444p; gray
            for arrays of one channel with HEVC.

    Attributes:
        frames: how many were written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fps: float | Fraction = 30,
        codec: str = "hevc",
        period: int = 32,
        crf: float | None = None,
        preset: str | None = None,
        threads: int | None = None,
        *,
        profile: str = "balanced",
        tune: str | None = None,
        pixel_format: str | None = None,
        idr: int = 0,
        params: dict[str, str] | None = None,
        force: bool = False,
    ) -> None:
        rate = Fraction(fps).limit_denominator(1001)
        if rate <= 0:
            raise ArgumentError(f"fps must be positive, not {fps!r}")
        self.path = Path(path)
        self.frames = 0
        self._rate = rate
        self._format = container(self.path)
        self._options: dict[str, Any] = {
            "codec": codec,
            "period": period,
            "profile": profile,
            "crf": crf,
            "preset": preset,
            "tune": tune,
            "threads": threads,
            "idr": idr,
            "params": params or {},
        }
        Settings(**self._options)  # raises for what is not allowed
        self._pixel_format = pixel_format
        self._force = force
        self._shape: tuple[int, ...] | None = None
        self._stack = ExitStack()
        self._part: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> Encoder:
        self._part = self._stack.enter_context(whole_file(self.path, force=self._force))
        return self

    def write(self, frames: NDArray[np.uint8]) -> None:
        """Append one frame, uint8 [H, W, 3] or [H, W], or several, [N, H, W, C].

        Raises:
            ArgumentError: the array is of another kind, or of another size than the first.
            EncodeError: the program has failed.
        """
        if self._part is None:
            raise ArgumentError("an Encoder writes inside its with block only")
        array = np.asarray(frames)
        if array.dtype != np.uint8:
            raise ArgumentError(f"frames must be uint8, not {array.dtype}")
        if array.ndim == 2:
            array = array[..., None]
        if array.ndim == 3:
            array = array[None]
        if array.ndim != 4 or array.shape[3] not in (1, 3) or 0 in array.shape[1:]:
            raise ArgumentError(
                f"frames must be [H, W, 3], [H, W] or [N, H, W, C], not {np.shape(frames)}"
            )
        if self._shape is None:
            self._shape = array.shape[1:]
            self._start(*self._shape)
        elif array.shape[1:] != self._shape:
            raise ArgumentError(f"a frame of {array.shape[1:]} after frames of {self._shape}")
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            for frame in array:
                self._process.stdin.write(np.ascontiguousarray(frame).data)
                self.frames += 1
        except BrokenPipeError:
            self._process.wait()
            self._fail()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                with self._stack:
                    try:
                        self._finish()
                    finally:
                        self._stop()
            else:
                self._stop()
                self._stack.__exit__(kind, error, trace)
        finally:
            self._part = None

    def _stop(self) -> None:
        if self._process is not None:
            stop(self._process)

    def _start(self, height: int, width: int, channels: int) -> None:
        assert self._part is not None
        odd = height % 2 or width % 2
        gray = channels == 1 and self._options["codec"] == "hevc"
        kept = "gray" if gray else "yuv444p" if odd else "yuv420p"
        settings = Settings(**self._options, pixel_format=self._pixel_format or kept)
        filters = ["-vf", COLOUR] if channels == 3 else []
        arguments = [
            *("-f", "rawvideo", "-pix_fmt", "rgb24" if channels == 3 else "gray"),
            *("-s", f"{width}x{height}", "-r", str(self._rate), "-i", "pipe:0"),
            *filters,
            *("-fps_mode", "passthrough"),
            *settings.arguments(),
            *output_arguments(self._format, self._options["codec"]),
            f"file:{self._part}",
        ]
        self._log = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._process = start(
            arguments, self._log, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )

    def _finish(self) -> None:
        if self._process is None:
            raise EncodeError(f"{self.path}: no frames were written", file=str(self.path))
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        if self._process.wait() != 0:
            self._fail()
        assert self._part is not None
        checked = check_ddra(self._part)
        if not checked.ok or checked.frames != self.frames:
            raise EncodeError(
                f"{self.path}: the result is not DDRA with {self.frames} frames",
                file=str(self.path),
            )

    def _fail(self) -> None:
        assert self._log is not None
        assert self._process is not None
        self._log.seek(0)
        text = self._log.read().decode("utf-8", "replace")
        reason = failure_of(self._process.returncode, text)
        raise EncodeError(f"{self.path}: {reason}", file=str(self.path))
