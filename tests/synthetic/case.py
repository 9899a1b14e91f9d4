"""What an odd stream is: its bytes, what is odd, and how to see that it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from synthetic.trace import Trace, Unit, trace


@dataclass(frozen=True)
class Case:
    """One odd stream.

    Attributes:
        name: of the file, without suffix.
        codec: "h264" or "hevc".
        make: gives the byte stream.
        odd: whether what is odd is in its syntax elements.
        clean: the linear decode has nothing to complain of, and every frame has to be had.
        versions: versions of FFmpeg agree on the pictures; where not, only the one inside counts.
    """

    name: str
    codec: str
    make: Callable[[], bytes]
    odd: Callable[[Trace], bool]
    clean: bool = True
    versions: bool = True

    @property
    def suffix(self) -> str:
        """Of the file."""
        return ".264" if self.codec == "h264" else ".hevc"

    def is_odd(self) -> bool:
        """Whether the stream holds what its name says, as FFmpeg's bitstream parser reads it."""
        return self.odd(trace(self.make(), self.codec))


def values(units: list[Unit], name: str) -> list[int]:
    """All values of a syntax element in a stream."""
    return [value for unit in units for value in unit.all(name)]


def slices(units: list[Unit]) -> list[Unit]:
    """The slice headers."""
    return [unit for unit in units if unit.get("slice_type") is not None]
