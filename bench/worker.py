"""One arm in a process of its own: takes requests on stdin and tells what they cost on stdout.

Run as ``python -m bench.worker ARM`` by the arm's own Python. Lines are JSON. Times are of the
reading alone: that frames are hashed afterwards is in no figure.
"""

from __future__ import annotations

import base64
import contextlib
import gc
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import arms
from bench.patterns import WHOLE

# side of the squares whose means tell frames apart
SQUARE = 16
# of a whole file's frames, one in so many is compared by its squares
SAMPLE = 10


def thumb(frame: np.ndarray) -> np.ndarray:
    """Sums over squares of 16 x 16 pixels, as uint16 [h, w, 3]."""
    height, width = (max(side // SQUARE, 1) for side in frame.shape[:2])
    rows, columns = min(SQUARE, frame.shape[0]), min(SQUARE, frame.shape[1])
    part = frame[: height * rows, : width * columns]
    sums = part.reshape(height, rows, width, columns, -1).sum(axis=(1, 3), dtype=np.uint32)
    return np.asarray(sums.astype(np.uint16))


def digest(frame: np.ndarray) -> str:
    """A hash of a frame's pixels."""
    return hashlib.blake2b(np.ascontiguousarray(frame).data, digest_size=12).hexdigest()


def describe(frames: Any, expected: list[str], every: int = 1) -> list[dict[str, Any]]:
    """What the parent needs to see whether frames are right, whose hashes are expected."""
    described = []
    for k, frame in enumerate(arms.stack(frames)):
        facts: dict[str, Any] = {"hash": digest(frame)}
        if k % every == 0 and [facts["hash"]] != expected[k : k + 1]:
            small = thumb(frame)
            facts["shape"] = small.shape
            facts["thumb"] = base64.b64encode(small.tobytes()).decode()
        described.append(facts)
    return described


def bytes_read() -> int:
    """Bytes that this process has asked of read and pread so far."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1])
    return 0


class Clock:
    """CPU and wall seconds of what runs within it; may be entered several times."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    def __enter__(self) -> Clock:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu += time.process_time() - self._cpu
        self.wall += time.perf_counter() - self._wall

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what this thread does, but not what a loader's own threads do meanwhile."""
        wall, cpu = time.perf_counter(), time.thread_time()
        yield
        self.cpu -= time.thread_time() - cpu
        self.wall -= time.perf_counter() - wall


class Worker:
    """Answers the commands for one arm."""

    def __init__(self, name: str) -> None:
        self.arm = arms.make(name)
        self.handles: dict[str, Any] = {}

    def hello(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"versions": self.arm.versions(), "python": sys.version.split()[0]}

    def rss(self, _: dict[str, Any]) -> dict[str, Any]:
        status = Path("/proc/self/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        return {"peak_kib": int(fields["VmHWM"].split()[0])}

    def forget(self, _: dict[str, Any]) -> dict[str, Any]:
        """Close what the warm mode holds."""
        for handle in self.handles.values():
            self.arm.close(handle)
        self.handles.clear()
        return {}

    def block(self, command: dict[str, Any]) -> dict[str, Any]:
        path, warm = command["path"], command["mode"] == "warm"
        self.arm.prepare(path)
        if warm and path not in self.handles:
            self.handles[path] = self.arm.open(path)
            # the index is built here
            self.arm.read(self.handles[path], command["requests"][0][:1])
        own = bytes_read()
        own = bytes_read() - own  # what asking costs
        results = []
        for indices, expected in zip(command["requests"], command["hashes"], strict=True):
            self.arm.prepare(path)
            clock, before = Clock(), bytes_read()
            handle = self.handles[path] if warm else None
            counted = self.arm.pictures(handle) or 0 if warm else 0
            described: list[dict[str, Any]] = []
            if command["pattern"] == WHOLE:
                with clock:
                    handle = handle or self.arm.open(path)
                    for frames in self.arm.read_all(handle, len(indices)):
                        with clock.paused():
                            described += describe(frames, expected[len(described) :], SAMPLE)
            else:
                with clock:
                    handle = handle or self.arm.open(path)
                    frames = self.arm.read(handle, indices)
                    done = bytes_read()
                described = describe(frames, expected)
                del frames
            if command["pattern"] == WHOLE:
                done = bytes_read()
            pictures = self.arm.pictures(handle)
            if not warm:
                with clock:
                    self.arm.close(handle)
                    del handle
            results.append(
                {
                    "cpu": clock.cpu,
                    "wall": clock.wall,
                    "bytes": done - before - own,
                    "pictures": None if pictures is None else pictures - counted,
                    "frames": described,
                }
            )
        return {"results": results}


def serve(name: str) -> int:
    """Answer commands until stdin ends."""
    # libraries may print: what they say goes to stderr
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(reply: dict[str, Any]) -> None:
        out.write(json.dumps(reply) + "\n")
        out.flush()

    try:
        worker = Worker(name)
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {_first_line(error)}"})
        return 1
    answer(worker.hello({}))
    for line in sys.stdin:
        command = json.loads(line)
        gc.collect()
        try:
            reply = getattr(worker, command["do"])(command)
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {_first_line(error)}"}
        answer(reply)
    return 0


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else ""


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1]))
