"""A writer of syntax elements, and NAL units made of them."""

from __future__ import annotations


class Bits:
    """Bits, most significant first, written by the descriptors of the H.264 and HEVC standards."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def u(self, width: int, value: int) -> None:
        """An unsigned number of so many bits."""
        if not 0 <= value < 1 << width:
            raise ValueError(f"{value} does not fit into {width} bits")
        if width:
            self._text.append(format(value, f"0{width}b"))
            self._count += width

    def flag(self, value: object) -> None:
        """One bit."""
        self.u(1, int(bool(value)))

    def ue(self, value: int) -> None:
        """An Exp-Golomb code (H.264 9.1, HEVC 9.2)."""
        if value < 0:
            raise ValueError(f"{value} is negative")
        self.u(2 * (value + 1).bit_length() - 1, value + 1)

    def se(self, value: int) -> None:
        """A signed Exp-Golomb code."""
        self.ue(2 * value - 1 if value > 0 else -2 * value)

    def te(self, most: int, value: int) -> None:
        """A truncated Exp-Golomb code of a value of at most `most`."""
        if most > 1:
            self.ue(value)
        else:
            self.flag(not value)

    def align(self, bit: int = 0) -> None:
        """Go on to the next whole byte."""
        self.u(-self._count % 8, (1 << (-self._count % 8)) - 1 if bit else 0)

    def raw(self, data: bytes) -> None:
        """Whole bytes, at a byte boundary."""
        if self._count % 8:
            raise ValueError("not at a byte boundary")
        if data:
            self.u(8 * len(data), int.from_bytes(data, "big"))

    def trailing(self) -> None:
        """A one, and zeros up to the byte boundary."""
        self.flag(1)
        self.align()

    def bytes(self) -> bytes:
        """What was written, which ends at a byte boundary."""
        if self._count % 8:
            raise ValueError("not at a byte boundary")
        text = "".join(self._text)
        return int(text or "0", 2).to_bytes(self._count // 8, "big")


def escape(payload: bytes) -> bytes:
    """The payload with emulation prevention bytes (H.264 7.4.1, HEVC 7.4.2)."""
    out = bytearray()
    zeros = 0
    for byte in payload:
        if zeros >= 2 and byte <= 3:
            out.append(3)
            zeros = 0
        out.append(byte)
        zeros = zeros + 1 if byte == 0 else 0
    return bytes(out)


def annex_b(units: list[bytes]) -> bytes:
    """NAL units with start codes."""
    return b"".join(b"\0\0\0\1" + unit for unit in units)
