"""What an encode is to be like, and the arguments that tell the program so."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparseframes.errors import ArgumentError

MIN_PERIOD, MAX_PERIOD = 2, 128

CODECS = {"hevc": "libx265", "h264": "libx264"}
"""The codecs by name, and the program's encoders for them."""


@dataclass(frozen=True)
class Profile:
    """Settings that go together: what is not said otherwise comes from here."""

    preset: str
    crf: float
    tune: str | None = None
    params: dict[str, str] = field(default_factory=dict)


PROFILES: dict[str, dict[str, Profile]] = {
    "hevc": {
        "compact": Profile("slower", 18, "psnr"),
        "balanced": Profile("slow", 18, "psnr"),
        "fast": Profile("slow", 18, "psnr", {"sao": "0", "no-deblock": "1"}),
    },
    "h264": {
        "compact": Profile("veryslow", 21, "psnr"),
        "balanced": Profile("slow", 21, "psnr"),
        "fast": Profile("slow", 21, "psnr", {"cabac": "0", "no-deblock": "1"}),
    },
}
"""For each codec, the profiles by name: the smallest files, the default, the cheapest to decode."""


@dataclass(frozen=True)
class Settings:
    """How to encode. What is None is the profile's.

    Attributes:
        codec: a key of `CODECS`.
        period: frames from one anchor to the next, 2 to 128.
        profile: a key of ``PROFILES[codec]``.
        crf: constant quality, smaller is better.
        preset: x264's or x265's preset.
        tune: x264's or x265's tune.
        threads: threads of the encoder; None for its own choice.
        pixel_format: FFmpeg's name; None for the source's.
        idr: every how many periods an IDR picture comes, with an anchor right before it, so that
            ordinary players can seek to it; 0 for the first frame only.
        params: more of x264's or x265's parameters.
    """

    codec: str = "hevc"
    period: int = 32
    profile: str = "balanced"
    crf: float | None = None
    preset: str | None = None
    tune: str | None = None
    threads: int | None = None
    pixel_format: str | None = None
    idr: int = 0
    params: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.codec not in CODECS:
            raise ArgumentError(f"codec must be one of {', '.join(CODECS)}, not {self.codec!r}")
        profiles = PROFILES[self.codec]
        if self.profile not in profiles:
            raise ArgumentError(
                f"profile must be one of {', '.join(profiles)}, not {self.profile!r}"
            )
        if not _is_int(self.period) or not MIN_PERIOD <= self.period <= MAX_PERIOD:
            raise ArgumentError(
                f"period must be an integer from {MIN_PERIOD} to {MAX_PERIOD}, not {self.period!r}"
            )
        if not _is_int(self.idr) or self.idr < 0:
            raise ArgumentError(f"idr must be an integer from 0, not {self.idr!r}")
        if self.threads is not None and (not _is_int(self.threads) or self.threads < 1):
            raise ArgumentError(f"threads must be an integer from 1, not {self.threads!r}")

    @property
    def quality(self) -> float:
        """The crf, given or the profile's."""
        return PROFILES[self.codec][self.profile].crf if self.crf is None else self.crf

    def arguments(self) -> list[str]:
        """The program's arguments for the video encoder."""
        profile = PROFILES[self.codec][self.profile]
        arguments = ["-c:v", CODECS[self.codec], "-ddra", "1", "-g", str(self.period)]
        if self.idr:
            arguments += ["-ddra_idr", str(self.idr)]
        arguments += ["-preset", self.preset or profile.preset, "-crf", f"{self.quality:g}"]
        tune = profile.tune if self.tune is None else self.tune
        if tune and tune != "none":
            arguments += ["-tune", tune]
        if self.pixel_format:
            arguments += ["-pix_fmt", self.pixel_format]
        if self.threads is not None:
            arguments += ["-threads:v", str(self.threads)]
        params = {**profile.params, **self.params}
        if self.codec == "hevc":
            params = {"log-level": "error", **params}
            if self.threads is not None:
                params.setdefault("pools", str(self.threads))
        if params:
            text = ":".join(f"{key}={value}" for key, value in params.items())
            arguments += [f"-{'x265' if self.codec == 'hevc' else 'x264'}-params", text]
        return arguments


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
