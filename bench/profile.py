"""Where a cold request's instructions go: `python -m bench.profile FILE...` prints tables.

Each request of a pattern opens the file, reads its frames as RGB and closes it, in
build/tests/request_times under callgrind, which counts instructions the same way however busy the
machine is. Needs valgrind and `make build`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "tests" / "request_times"
PATTERNS = {
    "one": "one frame",
    "contiguous": "10 in a row",
    "window": "10 of a window of 100",
    "stride4": "10, stride 4",
    "stride30": "10, stride 30",
}
REQUESTS = 6

CALLS = ("sparse_open_path", "sparse_get_frames", "sparse_close")
"""What a request calls: only what is within is counted."""

PARTS = {
    "open, close": ("sparse_open_path", "sparse_close"),
    "look at slice headers": ("sparse_plain_check",),
    "header pass": ("sparse_index_scan", "sparse_decoder_reset", "sparse_index_pack"),
    "plan": ("sparse_plan_make",),
    "read": ("sparse_source_read_packet",),
    "restore": ("ff_sparse_restore", "sparse_index_snapshot"),
    "decode": ("sparse_decoder_reconstruct", "sparse_av1_job_part"),
    "convert": ("sparse_request_fill",),
}
"""Parts of a request, and the functions whose instructions they are, with all they call."""

INSIDE = {"read": "decode", "restore": "decode"}
"""Parts that are called from another one, of which they are taken off."""


def count(path: Path, pattern: str) -> dict[str, float]:
    """Millions of instructions a request, by part; those of nobody are 'the rest'."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        toggles = [f"--toggle-collect={name}" for name in CALLS]
        subprocess.run(
            [
                *("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *toggles),
                *(str(PROGRAM), "-n", str(REQUESTS), "-p", pattern, "-o", str(path)),
            ],
            check=True,
            capture_output=True,
        )
        listing = subprocess.run(
            ["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(out)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    costs: dict[str, float] = {}
    for line in listing.splitlines():
        found = re.match(r"\s*([\d,]+) \(.*?\)\s+\S*?:([\w.]+)", line)
        if found:
            name = found[2].split(".")[0]
            costs[name] = max(costs.get(name, 0), int(found[1].replace(",", "")) / 1e6)
    total = re.search(r"^\s*([\d,]+) \(100", listing, re.MULTILINE)
    assert total is not None
    parts = {
        part: sum(costs.get(name, 0) for name in names) / REQUESTS for part, names in PARTS.items()
    }
    for part, outer in INSIDE.items():
        parts[outer] -= parts[part]
    parts["the rest"] = int(total[1].replace(",", "")) / 1e6 / REQUESTS - sum(parts.values())
    return parts


def table(path: Path) -> str:
    """A Markdown table of a file: parts by pattern."""
    found = {pattern: count(path, pattern) for pattern in PATTERNS}
    lines = [f"| {path.stem} | {' | '.join(PATTERNS.values())} |", "|---" * 6 + "|"]
    for part in (*PARTS, "the rest"):
        values = [parts[part] for parts in found.values()]
        lines.append(f"| {part} | " + " | ".join(f"{value:.2f}" for value in values) + " |")
    totals = [sum(parts.values()) for parts in found.values()]
    lines.append("| all | " + " | ".join(f"{total:.1f}" for total in totals) + " |")
    return "\n".join(lines)


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    print(f"Millions of instructions a request, the mean of {REQUESTS}.\n")
    for argument in sys.argv[1:]:
        print(table(Path(argument)) + "\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
