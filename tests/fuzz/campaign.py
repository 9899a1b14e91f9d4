"""Damaged variants of files, by the thousand: no crash, no hang, no wrong frame.

    python tests/fuzz/campaign.py PATH... [--variants 10000] [--journal FILE]

Bits are flipped, bytes replaced by noise, pieces cut out, doubled and swapped, ends cut off. Every
frame that a variant returns has to be the linear decode's of the same damaged file; else it raises.
Each variant has a bounded time and runs in a process of its own kind, so that a crash or a hang
costs that variant alone. A journal makes the campaign go on from where it was stopped. Exits with 1
when anything was wrong; what was wrong can be made again with --only NUMBER.

One difference is known and counted apart: in damaged H.264, FFmpeg's linear decode may add
coefficients of an unreadable slice to the next picture that it decodes; see docs/how-it-works.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import sparseframes
from sparseframes import VideoDecoder
from sparseframes.validation.reference import digest, own_frames

# of a variant: what is more is not decoded
MAX_FRAMES = 120
# frames asked for
ASKED = 24


def damage(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """One variant, and what was done to it."""
    out = bytearray(data)
    kind = rng.choice(("flip", "flips", "noise", "cut", "double", "swap", "end"))
    at = rng.randrange(len(out))
    size = rng.randint(1, max(1, min(600, len(out) // 8)))
    if kind == "flip":
        out[at] ^= 1 << rng.randrange(8)
    elif kind == "flips":
        for _ in range(rng.randint(2, 12)):
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    elif kind == "noise":
        out[at : at + size] = rng.randbytes(len(out[at : at + size]))
    elif kind == "cut":
        del out[at : at + size]
    elif kind == "double":
        out[at:at] = out[at : at + size]
    elif kind == "swap":
        other = rng.randrange(len(out))
        a, b = sorted((at, other))
        size = min(size, b - a, len(out) - b)
        out[a : a + size], out[b : b + size] = out[b : b + size], out[a : a + size]
    else:
        del out[max(1, at) :]
    return kind, bytes(out)


def variant(file: str, number: int, seed: int) -> tuple[str, bytes]:
    """Variant of a file by its number."""
    data = Path(file).read_bytes()
    return damage(data, random.Random(f"{seed}/{number}/{Path(file).name}"))


def examine(file: str, number: int, seed: int) -> dict[str, Any]:
    """Decode one variant linearly and by requests, and compare."""
    kind, data = variant(file, number, seed)
    result: dict[str, Any] = {"number": number, "file": file, "kind": kind, "status": "fine"}
    begun = time.process_time()
    try:
        with VideoDecoder(data, pixel_format="native") as decoder:
            _compare(decoder, random.Random(number), result)
    except sparseframes.SparseError as error:
        result["status"] = "refused"
        result["reason"] = f"{type(error).__name__}: {error}"[:200]
    result["seconds"] = round(time.process_time() - begun, 3)
    return result


def _compare(decoder: VideoDecoder, rng: random.Random, result: dict[str, Any]) -> None:
    expected: list[bytes] = []
    with decoder._use() as reader:
        for planes, _ in own_frames(reader, "native", decoder._orientation):
            expected.append(digest(planes))
            if len(expected) == MAX_FRAMES:
                break
    count = len(decoder)
    if len(expected) < MAX_FRAMES and count != len(expected):
        result["status"] = "wrong"
        result["reason"] = f"{count} frames, the linear decode has {len(expected)}"
        return
    frames = range(len(expected))
    wrong = []
    raised: set[int] = set()
    order = rng.sample(frames, min(ASKED, len(frames)))
    for index in order:
        try:
            got = digest(list(decoder[index]))
        except (sparseframes.DecodeError, sparseframes.UnsupportedError):
            raised.add(index)
            continue
        if got != expected[index]:
            wrong.append(index)
    result["exact"], result["raised"] = len(order) - len(raised) - len(wrong), len(raised)
    if wrong:
        stale = all(_is_stale(decoder, index) for index in wrong)
        result["status"] = "stale" if stale else "wrong"
        result["reason"] = f"frames {wrong} differ"


def _is_stale(decoder: VideoDecoder, index: int) -> bool:
    """Whether a picture that the frame is made of comes right after a damaged one (H.264)."""
    if decoder.metadata.codec != "h264":
        return False
    with decoder._use() as reader:
        pictures = reader.frame_info(0, len(decoder_frames(reader)))["picture"].tolist()
    place = {picture: k for k, picture in enumerate(pictures)}
    for picture in decoder.plan([index]).reconstruct.tolist():
        before = max((one for one in pictures if one < picture), default=None)
        if before is None:
            continue
        if picture - before > 2:
            return True  # packets between them gave no frame
        try:
            decoder[place[before]]
        except sparseframes.SparseError:
            return True
    return False


def decoder_frames(reader: Any) -> range:
    """The frames of a reader."""
    return range(reader.frame_count())


# -- processes ----------------------------------------------------------------------------------


def _serve(connection: Connection) -> None:
    while (task := connection.recv()) is not None:
        connection.send(examine(*task))


class Worker:
    """A process that examines variants; a new one takes its place when it is lost."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._start()

    def _start(self) -> None:
        self._connection, theirs = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def examine(self, file: str, number: int, seed: int, seconds: float) -> dict[str, Any]:
        """The result for a variant, in bounded time."""
        facts = {"number": number, "file": file}
        try:
            self._connection.send((file, number, seed))
            if self._connection.poll(seconds):
                result: dict[str, Any] = self._connection.recv()
                return result
            status = "hang"
        except (EOFError, OSError):
            status = "crash"
        self._process.kill()
        self._process.join()
        self._connection.close()
        code = self._process.exitcode
        self._start()
        return {**facts, "status": status, "reason": f"exit code {code}"}

    def close(self) -> None:
        """End the process."""
        self._connection.send(None)
        self._process.join()
        self._connection.close()


def files_of(paths: list[str], most: int) -> list[str]:
    """Files, and members of folders, that are not too large."""
    found = []
    for path in map(Path, paths):
        found += sorted(path.rglob("*")) if path.is_dir() else [path]
    skip = {".tsv", ".md", ".txt", ".py"}
    return [
        str(one)
        for one in found
        if one.is_file() and one.suffix not in skip and 0 < one.stat().st_size <= most
    ]


def done_before(journal: Path | None) -> Iterator[dict[str, Any]]:
    """Results of an earlier run; a line that was cut off is none."""
    for line in journal.read_text().splitlines() if journal and journal.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--variants", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-bytes", type=int, default=60_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="that a variant may take")
    parser.add_argument("--journal", type=Path)
    parser.add_argument("--only", type=int, help="examine this variant, here")
    arguments = parser.parse_args()

    files = files_of(arguments.paths, arguments.max_bytes)
    if not files:
        print("campaign: no files of that size", file=sys.stderr)
        return 2
    if arguments.only is not None:
        file = files[arguments.only % len(files)]
        print(json.dumps(examine(file, arguments.only, arguments.seed), indent=2))
        return 0
    results = {result["number"]: result for result in done_before(arguments.journal)}
    worker = Worker()
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(arguments.journal.open("a")) if arguments.journal else None
        for number in range(arguments.variants):
            if number in results:
                continue
            file = files[number % len(files)]
            result = worker.examine(file, number, arguments.seed, arguments.seconds)
            results[number] = result
            if log:
                log.write(json.dumps(result) + "\n")
                log.flush()
            if result["status"] in ("wrong", "crash", "hang"):
                print(json.dumps(result), flush=True)
            if number % 500 == 499:
                print(f"{number + 1} variants, {time.monotonic() - begun:.0f} s", flush=True)
    worker.close()
    counts = Counter(result["status"] for result in results.values())
    exact = sum(result.get("exact", 0) for result in results.values())
    raised = sum(result.get("raised", 0) for result in results.values())
    longest = max((result.get("seconds", 0) for result in results.values()), default=0)
    print(
        f"{len(results)} variants of {len(files)} files: {dict(counts)}; {exact} frames exact, "
        f"{raised} raised, longest {longest} s of CPU time"
    )
    return 1 if counts.keys() & {"wrong", "crash", "hang"} else 0


if __name__ == "__main__":
    sys.exit(main())
