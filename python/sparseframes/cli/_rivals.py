"""The two usual ways to get at frames, by PyAV: a decode from the start, and a seek."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def _open(path: str) -> tuple[Any, Any]:
    import av

    container = av.open(path)
    stream = container.streams.video[0]
    stream.codec_context.thread_count = 1
    stream.thread_type = "NONE"
    return container, stream


class Linear:
    """Decodes from the start up to the last frame wanted."""

    def __init__(self, path: str) -> None:
        self.path = path

    def get(self, indices: Sequence[int]) -> dict[int, NDArray[np.uint8]]:
        """RGB of frames by display index."""
        wanted, last = set(indices), max(indices)
        found = {}
        container, stream = _open(self.path)
        with container:
            for k, frame in enumerate(container.decode(stream)):
                if k in wanted:
                    found[k] = frame.to_ndarray(format="rgb24")
                if k == last:
                    break
        return found


class Seek:
    """Seeks to the key frame before each frame wanted and decodes up to it.

    Frames that share a key frame are taken in one go. The times of all frames are known
    beforehand, and the file stays open.
    """

    def __init__(self, path: str, pts: Sequence[int], keys: Sequence[int]) -> None:
        self.pts = list(pts)
        self.keys = np.asarray(keys)
        self.container, self.stream = _open(path)

    def get(self, indices: Sequence[int]) -> dict[int, NDArray[np.uint8]]:
        """RGB of frames by display index; a frame that the seek misses is not there."""
        groups: dict[int, list[int]] = {}
        for index in sorted(set(indices)):
            key = int(np.searchsorted(self.keys, index, side="right")) - 1
            groups.setdefault(key, []).append(index)
        found = {}
        for members in groups.values():
            at = {self.pts[index]: index for index in members}
            last = self.pts[members[-1]]
            self.container.seek(self.pts[members[0]], stream=self.stream)
            for frame in self.container.decode(self.stream):
                if frame.pts in at:
                    found[at[frame.pts]] = frame.to_ndarray(format="rgb24")
                if frame.pts is None or frame.pts >= last:
                    break
        return found

    def close(self) -> None:
        """Close the file."""
        self.container.close()
