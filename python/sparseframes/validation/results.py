"""What comes of a validation, as plain values that go to JSON and back."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Mismatch:
    """One thing that is not as the linear decode has it.

    Attributes:
        file: the file.
        kind: "native" or "rgb" for pixels; "count", "cost", "raised" or "size".
        index: display index of the frame, or -1.
        detail: in a few words.
        request: the indices asked for, in order.
        number: of the request in the file's series.
        pattern: that the request followed.
        picture: id of the frame's picture: its place in decode order; -1 when it isn't known.
        picture_type: "I", "P", "B" or "?".
        plane, x, y, expected, got: the first sample that differs, for pixels.
        closure: ids of the pictures to reconstruct for the request.
        seed: of the series.
        command: shell command that repeats the series for this file up to this request.
    """

    file: str
    kind: str
    index: int
    detail: str
    request: tuple[int, ...] = ()
    number: int = -1
    pattern: str = ""
    picture: int = -1
    picture_type: str = "?"
    plane: int = -1
    x: int = -1
    y: int = -1
    expected: int | None = None
    got: int | None = None
    closure: tuple[int, ...] = ()
    seed: int = 0
    command: str = ""


@dataclass
class FileResult:
    """What came of one file.

    Attributes:
        file: the file.
        status: "exact", "mismatch", "refused" (this library says why not), "unreadable" (neither
            it nor PyAV can read it), "failed" (the process died of it).
        reason: why, unless exact.
        frames: frames of the linear decode.
        requests: requests made.
        returned: frames that requests returned, repeats included.
        checked: returned frames that were compared; the same but for a bug in this harness.
        raised: requests refused with DecodeError at or after damage.
        reconstructed, planned: pictures, summed over the requests to fresh decoders.
        damaged_from: first frame that damage may touch, None for a clean file.
        patterns: number of requests of each pattern.
        notes: what the linear decoders complained of.
        mismatches: what is wrong.
        seconds: that it took.
    """

    file: str
    status: str = "exact"
    reason: str = ""
    codec: str = ""
    frames: int = 0
    requests: int = 0
    returned: int = 0
    checked: int = 0
    raised: int = 0
    reconstructed: int = 0
    planned: int = 0
    damaged_from: int | None = None
    patterns: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> FileResult:
        """The inverse of `to_json`.

        Raises:
            TypeError, KeyError: these are not the values of a result.
        """
        mismatches = [
            Mismatch(**{**m, "request": tuple(m["request"]), "closure": tuple(m["closure"])})
            for m in values["mismatches"]
        ]
        return cls(**{**values, "mismatches": mismatches})


def summary(results: Sequence[FileResult]) -> dict[str, int]:
    """Sums over files: files by status, and what was done."""
    return {
        **dict(Counter(result.status for result in results)),
        "requests": sum(result.requests for result in results),
        "frames_returned": sum(result.returned for result in results),
        "frames_checked": sum(result.checked for result in results),
        "mismatches": sum(len(result.mismatches) for result in results),
        "pictures_reconstructed": sum(result.reconstructed for result in results),
        "pictures_planned": sum(result.planned for result in results),
    }


def exit_status(results: Sequence[FileResult]) -> int:
    """1 when anything differs, or a process died; else 2 when anything was not read; else 0."""
    statuses = {result.status for result in results}
    if statuses & {"mismatch", "failed"}:
        return 1
    return 2 if statuses & {"refused", "unreadable"} else 0
