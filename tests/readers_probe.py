"""What another library reads from a file: python readers_probe.py READER FILE WIDTH HEIGHT.

Asks for every frame, in an order without system, and prints the numbers in the pictures as JSON.
Runs in an environment of its own, so it imports nothing but the reader and NumPy.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable

import numpy as np

Pixels = np.ndarray
SEED = 5


def order_of(count: int) -> list[int]:
    """Every frame, without system, and some neighbours forwards and backwards."""
    shuffled = list(range(count))
    random.Random(SEED).shuffle(shuffled)
    some = [k for k in range(30, 36) if k < count]
    return [*shuffled, *some, *reversed(some)]


def number_of(pixels: Pixels) -> int:
    """The 8-bit number in a picture, as media.number_of reads it."""
    plane = pixels.astype(float).mean(axis=2)
    height, width = plane.shape
    row = plane[max(2, 6 * height // 96)]
    return sum(1 << k for k in range(8) if row[int((k + 0.5) * width / 8)] > 125)


def pyav(path: str) -> tuple[int, Callable[[int], Pixels]]:
    """Seek to the frame's time, decode up to it."""
    import av

    container = av.open(path)
    stream = container.streams.video[0]
    times = sorted(packet.pts for packet in container.demux(stream) if packet.pts is not None)

    def read(k: int) -> Pixels:
        container.seek(times[k], stream=stream)
        frame = next(frame for frame in container.decode(stream) if frame.pts >= times[k])
        return frame.to_ndarray(format="rgb24")

    return len(times), read


def torchcodec(path: str, mode: str) -> tuple[int, Callable[[int], Pixels]]:
    from torchcodec.decoders import VideoDecoder

    decoder = VideoDecoder(path, dimension_order="NHWC", seek_mode=mode)
    return len(decoder), lambda k: decoder[k].numpy()


def decord2(path: str) -> tuple[int, Callable[[int], Pixels]]:
    import decord

    reader = decord.VideoReader(path)
    return len(reader), lambda k: reader[k].asnumpy()


def opencv(path: str) -> tuple[int, Callable[[int], Pixels]]:
    import cv2

    capture = cv2.VideoCapture(path)
    count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))

    def read(k: int) -> Pixels:
        capture.set(cv2.CAP_PROP_POS_FRAMES, k)
        done, pixels = capture.read()
        if not done:
            raise RuntimeError(f"no frame {k}")
        return pixels

    return count, read


READERS: dict[str, Callable[[str], tuple[int, Callable[[int], Pixels]]]] = {
    "pyav": pyav,
    "torchcodec-exact": lambda path: torchcodec(path, "exact"),
    "torchcodec-approximate": lambda path: torchcodec(path, "approximate"),
    "decord2": decord2,
    "opencv": opencv,
}


def main() -> None:
    """Print the count, the order and the numbers."""
    reader, path = sys.argv[1:3]
    count, read = READERS[reader](path)
    order = order_of(count)
    print(json.dumps({"count": count, "read": [[k, number_of(read(k))] for k in order]}))


if __name__ == "__main__":
    main()
