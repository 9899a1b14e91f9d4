"""What the frames of a clip are to be, and whether a loader returned them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import av
import numpy as np

from bench.worker import digest, thumb
from sparseframes import VideoDecoder
from sparseframes._binding import Reader
from sparseframes._source import PathSource
from sparseframes.errors import UnsupportedError

# means of 16 x 16 pixels may be nearer to another frame's by so much, in levels of 255: frames
# that don't move differ by no more
TIE = 0.02
NEIGHBOURS, SPREAD = 8, 40


class Reference:
    """Hashes and means of squares of all frames of a linear decode.

    Kept in a file, for they are the same in each run.
    """

    def __init__(self, hashes: list[str], thumbs: np.ndarray) -> None:
        self.hashes = hashes
        self.thumbs = thumbs
        """float32 [N, squares, 3], in levels of 255"""

    @classmethod
    def of(cls, path: Path, folder: Path) -> Reference:
        """The reference of a video file."""
        status = path.stat()
        cache = folder / f"{path.stem}-{status.st_size}-{status.st_mtime_ns}.npz"
        if cache.exists():
            with np.load(cache) as arrays:
                return cls(arrays["hashes"].tolist(), arrays["thumbs"])
        hashes, thumbs = [], []
        for frame in linear(path):
            hashes.append(digest(frame))
            thumbs.append(levels(thumb(frame)))
        result = cls(hashes, np.stack(thumbs))
        part = cache.with_name(f".{cache.name}")
        with part.open("wb") as file:
            np.savez(file, hashes=np.array(hashes), thumbs=result.thumbs)
        part.replace(cache)
        return result

    def judge(self, index: int, facts: dict[str, Any]) -> str:
        """'exact', 'right' (the right frame with other pixels), 'wrong', or 'unseen'."""
        if facts["hash"] == self.hashes[index]:
            return "exact"
        if "thumb" not in facts:
            return "unseen"
        data = np.frombuffer(base64.b64decode(facts["thumb"]), np.uint16)
        squares = levels(data.reshape(facts["shape"]))
        if squares.shape != self.thumbs.shape[1:]:
            return "wrong"
        # its neighbours, and some from all over the file: a frame from elsewhere is nearer to those
        near = range(max(index - NEIGHBOURS, 0), index + NEIGHBOURS + 1)
        others = np.linspace(0, len(self.hashes) - 1, SPREAD).astype(int)
        compared = [index, *{k for k in (*near, *others.tolist()) if k < len(self.hashes)}]
        # other converters shift the levels a little, everywhere alike
        difference = squares - self.thumbs[compared]
        difference -= np.median(difference, axis=1, keepdims=True)
        distance = np.abs(difference).mean(axis=(1, 2))
        return "right" if distance[0] <= distance.min() + TIE else "wrong"


def levels(sums: np.ndarray) -> np.ndarray:
    """Sums over squares as means [squares, 3]."""
    return sums.reshape(-1, 3).astype(np.float32) / 256


def linear(path: Path) -> Any:
    """All frames of a linear decode as RGB [H, W, 3]."""
    try:
        with VideoDecoder(path) as decoder:
            own = decoder.metadata.codec in ("h264", "hevc")
    except UnsupportedError:
        own = False
    if not own:  # AV1 by another build of the same decoder, which is no different
        with av.open(str(path)) as container:
            for frame in container.decode(video=0):
                yield frame.to_ndarray(format="rgb24")
        return
    reader = Reader(PathSource(str(path)), stream_index=None, threads=1)
    with reader.linear() as frames:
        while (item := frames.next("rgb24")) is not None:
            layout, packed, _ = item
            yield packed.reshape(layout.height, layout.width, 3)
    reader.close()
