"""How a file is validated, and the sets of options that have names."""

from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass
from typing import Any

from sparseframes.validation.requests import PATTERNS

PIXELS = ("both", "alternate", "native", "rgb24")


@dataclass(frozen=True)
class Options:
    """How a file is validated.

    Attributes:
        requests: how many.
        frames_per_request: indices a request, at most.
        seed: of the requests.
        patterns: of `PATTERNS`, followed in turn.
        exact_size: every request has that many frames, if the file does.
        pixels: "both": every request is made of native planes and of RGB; "alternate": now of
            these, now of those; or one of them alone.
        threads: threads of the decoder under test.
        seconds: after these the file's series ends early; 0 for no limit.
        saved_index: the decoder under test works with an index that was saved and opened again,
            where the codec has such.
    """

    requests: int = 200
    frames_per_request: int = 8
    seed: int = 0
    patterns: tuple[str, ...] = PATTERNS
    exact_size: bool = False
    pixels: str = "both"
    threads: int = 1
    seconds: float = 0.0
    saved_index: bool = False

    def __post_init__(self) -> None:
        unknown = [pattern for pattern in self.patterns if pattern not in PATTERNS]
        if unknown or not self.patterns:
            raise ValueError(f"patterns are some of {', '.join(PATTERNS)}, not {unknown}")
        if self.pixels not in PIXELS:
            raise ValueError(f"pixels is one of {', '.join(PIXELS)}, not {self.pixels!r}")
        if min(self.requests, self.frames_per_request, self.threads) < 1:
            raise ValueError("requests, frames_per_request and threads are at least 1")

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return dataclasses.asdict(self)

    def share(self, number: int, files: int) -> Options:
        """The options of file number out of so many, when the requests are those of all."""
        few, rest = divmod(self.requests, files)
        return dataclasses.replace(self, requests=max(1, few + (number < rest)))

    def command(self, path: str, requests: int) -> str:
        """The shell command that makes the first so many requests of the series again."""
        words = ["sparseframes", "validate", path, "--requests", str(requests)]
        words += ["--seed", str(self.seed)]
        words += ["--frames-per-request", str(self.frames_per_request)]
        if self.patterns != PATTERNS:
            words += ["--patterns", ",".join(self.patterns)]
        if self.exact_size:
            words.append("--exact-size")
        if self.pixels != "both":
            words += ["--pixels", self.pixels]
        if self.threads != 1:
            words += ["--threads", str(self.threads)]
        if self.saved_index:
            words.append("--saved-index")
        return shlex.join(words)


@dataclass(frozen=True)
class Preset:
    """Options with a name.

    Attributes:
        options: for a file, or for all files together.
        together: the number of requests is that of all files.
    """

    options: Options
    together: bool = False


PRESETS = {
    "quick": Preset(Options(requests=2 * len(PATTERNS))),
    "full": Preset(Options(requests=15 * len(PATTERNS))),
    # the test that the paper reports: 100,000 frames in 10,000 requests of ten
    "paper": Preset(
        Options(
            requests=10_000,
            frames_per_request=10,
            patterns=(
                "first",
                "last",
                "ends",
                "access",
                "leading",
                "repeated",
                "shuffled",
                "window",
                "contiguous",
                "strided",
            ),
            exact_size=True,
            pixels="alternate",
        ),
        together=True,
    ),
}
