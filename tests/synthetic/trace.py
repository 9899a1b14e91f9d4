"""Streams read back by FFmpeg's coded bitstream parser, which is not the decoder's.

It gives the syntax elements by their names in the standards.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field

import av
import av.logging

_ELEMENT = re.compile(r"^\s*(\d+)\s+(\S+)\s+([01x]+)\s+=\s+(-?\d+)")


@dataclass
class Unit:
    """The syntax elements of one unit of a packet, in order.

    Attributes:
        title: what the parser calls it, "Slice Header".
        elements: names, with their subscripts, and values.
    """

    title: str
    elements: list[tuple[str, int]] = field(default_factory=list)

    def get(self, name: str) -> int | None:
        """The first value of an element, without subscripts in the name, None if it isn't there."""
        return next(iter(self.all(name)), None)

    def all(self, name: str) -> list[int]:
        """All values of an element."""
        return [value for key, value in self.elements if key.partition("[")[0] == name]


class Trace(list[Unit]):
    """The units of a stream that have syntax elements.

    Attributes:
        types: nal_unit_type of all NAL units, those without syntax elements, too.
    """

    types: list[int]


def nal_types(data: bytes, codec: str) -> list[int]:
    """nal_unit_type of the NAL units of a byte stream."""
    starts = [match.end() for match in re.finditer(b"\0\0\1", data)]
    return [data[at] >> 1 & 63 if codec == "hevc" else data[at] & 31 for at in starts]


def trace(data: bytes, codec: str) -> Trace:
    """All units of an elementary stream; codec is "h264" or "hevc"."""
    level = av.logging.get_level()
    with av.open(io.BytesIO(data), format=codec) as container:
        context = av.BitStreamFilterContext("trace_headers", container.streams.video[0])
        packets = [packet for packet in container.demux(video=0) if packet.size]
        av.logging.set_level(av.logging.INFO)
        try:
            with av.logging.Capture() as logged:
                for packet in packets:
                    context.filter(packet)
                context.filter(None)
        finally:
            av.logging.set_level(level)
    lines = "".join(text for _, _, text in logged).splitlines()
    units = Trace()
    units.types = nal_types(data, codec)
    for line in lines:
        found = _ELEMENT.match(line)
        if found and units:
            units[-1].elements.append((found.group(2), int(found.group(4))))
        elif line.strip() and not line.startswith((" ", "\t")):
            units.append(Unit(line.strip()))
    units[:] = [one for one in units if one.elements]
    return units
