"""Forged saved indexes, by the thousand, under the sanitizers: refused, or frames, but no crash.

    python tests/fuzz/forged.py PROGRAM PATH... [--variants 1500] [--seed 1]

PROGRAM is check_forged (tests/c). For each file its index is saved, taken apart, changed in one
place at a time, signed again, and requests are made through it: with pictures that the readers
before have kept, and without. Exits with 1 when the program ended otherwise than it should.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import av

from sparseframes import SparseError, VideoDecoder

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import forge


def forged(path: Path, variants: int, seed: int) -> Iterator[bytes]:
    """About so many variants of the index of a file."""
    with tempfile.TemporaryDirectory() as folder, VideoDecoder(path) as decoder:
        saved = Path(folder) / "saved"
        decoder.save_index(saved)
        index, frames = saved.read_bytes(), len(decoder)
    with av.open(str(path)) as container:
        packets = sum(1 for packet in container.demux(video=0) if packet.size)
    parts = forge.Parts.of(index, max(frames, packets))
    size = len(parts.head) + sum(map(len, parts.blocks))
    step = max(1, 2 * size // variants)
    marked = (variant for _, variant in islice(parts.unmarked(), 0, None, step))
    return chain(parts.variants(seed, step), marked, (variant for _, variant in parts.grayed()))


def run(program: Path, path: Path, indexes: Path, kept: int) -> tuple[bool, str]:
    """Whether it went well, and what to say of it."""
    suppressions = Path(__file__).with_name("ubsan.supp")
    options = f"suppressions={suppressions}:print_stacktrace=1:halt_on_error=1"
    done = subprocess.run(
        [program, "-k", str(kept), path, indexes],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=3600,
        env={**os.environ, "UBSAN_OPTIONS": options},
    )
    lines = done.stdout.split("\n")
    if done.returncode == 0:
        return True, lines[-2]
    return False, f"exit status {done.returncode} after {lines[-2:][0] or 0}\n{done.stderr[:6000]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--variants", type=int, default=1500, help="of each file, about")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    status = 0
    files = chain.from_iterable(
        sorted(path.iterdir()) if path.is_dir() else [path] for path in arguments.paths
    )
    for path in files:
        try:
            variants = list(forged(path, arguments.variants, arguments.seed))
        except SparseError as error:
            print(f"{path.name}: has no index: {' '.join(str(error).split())}", flush=True)
            continue
        with tempfile.NamedTemporaryFile() as file:
            for variant in variants:
                file.write(len(variant).to_bytes(4, "little") + variant)
            file.flush()
            for kept in (256, 0):
                well, words = run(arguments.program, path, Path(file.name), kept)
                print(f"{path.name}, {kept} MiB kept: {words}", flush=True)
                status |= not well
    return status


if __name__ == "__main__":
    sys.exit(main())
