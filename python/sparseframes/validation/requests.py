"""What is asked of a file: series of requests that follow patterns, drawn from a seed.

Pure: it knows of a file what `Structure` says.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# frames on both sides of a random access point that "access" asks for
NEIGHBOURHOOD = 4
# frames that "window" spreads a request over, for each frame asked for
WINDOW = 10
# "after" goes from each of so many frames to each of them
AFTER_FRAMES = 24


@dataclass(frozen=True)
class Structure:
    """What the requests of a file are drawn from.

    Attributes:
        count: frames.
        access: display indices of the random access points, ascending.
        leading: display indices of the leading pictures: shown before a random access point that
            they are decoded after.
    """

    count: int
    access: tuple[int, ...] = ()
    leading: tuple[int, ...] = ()

    @classmethod
    def of(cls, pictures: Sequence[int], keys: Sequence[bool]) -> Structure:
        """From the picture id and the key flag of each frame, in display order."""
        access = tuple(k for k, key in enumerate(keys) if key)
        leading = []
        shown = -1
        # in decode order: the latest random access point is shown only later
        for index in sorted(range(len(pictures)), key=lambda k: pictures[k]):
            if keys[index]:
                shown = index
            elif index < shown:
                leading.append(index)
        return cls(len(pictures), access, tuple(sorted(leading)))


@dataclass(frozen=True)
class Request:
    """Indices to ask for, and the pattern they follow.

    Attributes:
        pattern: one of `PATTERNS`.
        indices: display indices in the order to ask for.
        one_by_one: ask for each index in a call of its own, on the decoder of all such requests.
    """

    pattern: str
    indices: tuple[int, ...]
    one_by_one: bool = False


@dataclass
class _Draw:
    """One series that is being drawn."""

    rng: random.Random
    stream: Structure
    size: int
    exact: bool
    turn: int = 0

    def many(self) -> int:
        """How many frames the next request has."""
        most = max(1, min(self.size, self.stream.count))
        return most if self.exact else self.rng.randint(1, most)

    def run(self, many: int) -> list[int]:
        start = self.rng.randint(0, self.stream.count - many)
        return list(range(start, start + many))

    def around(self, centres: Sequence[int]) -> list[int]:
        """Frames near one of these, each in its turn, in any order and with repeats."""
        centre = centres[self.turn % len(centres)]
        low = max(0, centre - NEIGHBOURHOOD)
        high = min(self.stream.count - 1, centre + NEIGHBOURHOOD)
        return [centre, *(self.rng.randint(low, high) for _ in range(self.many() - 1))]


def _first(draw: _Draw) -> Sequence[int]:
    return range(draw.many())


def _last(draw: _Draw) -> Sequence[int]:
    return range(draw.stream.count - draw.many(), draw.stream.count)


def _ends(draw: _Draw) -> Sequence[int]:
    last = draw.stream.count - 1
    many = draw.many()
    near = [draw.rng.randint(0, min(last, NEIGHBOURHOOD)) for _ in range(many)]
    chosen = [draw.rng.choice((index, last - index)) for index in near]
    return [0, last, *chosen][:many]


def _single(draw: _Draw) -> Sequence[int]:
    return [draw.rng.randrange(draw.stream.count)]


def _contiguous(draw: _Draw) -> Sequence[int]:
    return draw.run(draw.many())


def _reversed(draw: _Draw) -> Sequence[int]:
    return draw.run(draw.many())[::-1]


def _strided(draw: _Draw) -> Sequence[int]:
    many = draw.many()
    step = draw.rng.randint(1, max(1, (draw.stream.count - 1) // many))
    first = draw.rng.randint(0, draw.stream.count - 1 - (many - 1) * step)
    return range(first, first + many * step, step)


def _window(draw: _Draw) -> Sequence[int]:
    many = draw.many()
    wide = min(draw.stream.count, WINDOW * many)
    start = draw.rng.randint(0, draw.stream.count - wide)
    return sorted(draw.rng.sample(range(start, start + wide), many))


def _anywhere(draw: _Draw) -> Sequence[int]:
    return sorted(draw.rng.sample(range(draw.stream.count), draw.many()))


def _shuffled(draw: _Draw) -> Sequence[int]:
    return draw.rng.sample(range(draw.stream.count), draw.many())


def _repeated(draw: _Draw) -> Sequence[int]:
    many = draw.many()
    few = [draw.rng.randrange(draw.stream.count) for _ in range(max(1, many // 2))]
    return [draw.rng.choice(few) for _ in range(many if draw.exact else many + 1)]


def _access(draw: _Draw) -> Sequence[int]:
    return draw.around(draw.stream.access or (0,))


def _leading(draw: _Draw) -> Sequence[int]:
    leading = draw.stream.leading
    if not leading:
        return _access(draw)
    first = leading[draw.turn % len(leading)]
    return [first, *(draw.rng.choice(leading) for _ in range(draw.many() - 1))]


_DRAWS: dict[str, Callable[[_Draw], Sequence[int]]] = {
    "first": _first,
    "last": _last,
    "ends": _ends,
    "single": _single,
    "contiguous": _contiguous,
    "strided": _strided,
    "window": _window,
    "shuffled": _shuffled,
    "repeated": _repeated,
    "reversed": _reversed,
    "anywhere": _anywhere,
    "access": _access,
    "leading": _leading,
}

PATTERNS = (*_DRAWS, "after")


def make_requests(
    stream: Structure | int,
    number: int,
    size: int,
    seed: str | int,
    *,
    patterns: Sequence[str] = PATTERNS,
    exact_size: bool = False,
) -> list[Request]:
    """A series of requests; a longer one from the same seed begins with the shorter one.

    Args:
        stream: what is known of the file, or its number of frames alone.
        number: how many requests; none for a stream without frames.
        size: frames a request, at most.
        seed: of all that is drawn.
        patterns: they are followed in turn.
        exact_size: every request has `size` frames, or as many as there are.
    """
    if isinstance(stream, int):
        stream = Structure(stream)
    if stream.count <= 0:
        return []
    draw = _Draw(random.Random(seed), stream, size, exact_size)
    walk = walk_after(stream.count, str(seed))
    made = []
    for k in range(number):
        pattern = patterns[k % len(patterns)]
        draw.turn = k // len(patterns)
        if pattern == "after":
            indices = tuple(next(walk) for _ in range(size))
            made.append(Request(pattern, indices, one_by_one=True))
        else:
            made.append(Request(pattern, tuple(_DRAWS[pattern](draw))))
    return made


def walk_after(count: int, seed: str) -> Iterator[int]:
    """An endless walk that goes from each of up to `AFTER_FRAMES` frames to each other one.

    Of longer streams the frames are drawn. One round is a closed walk over all ordered pairs, so
    that each frame comes after each other one.
    """
    rng = random.Random(f"{seed}/after")
    nodes = rng.sample(range(count), min(count, AFTER_FRAMES))
    while True:
        if len(nodes) == 1:
            yield nodes[0]
            continue
        # Hierholzer's walk over the complete directed graph
        left = {node: rng.sample(nodes, len(nodes)) for node in nodes}
        stack, circuit = [nodes[0]], []
        while stack:
            ways = left[stack[-1]]
            if ways and ways[-1] == stack[-1]:
                ways.pop()
            if ways:
                stack.append(ways.pop())
            else:
                circuit.append(stack.pop())
        yield from circuit[:0:-1]
