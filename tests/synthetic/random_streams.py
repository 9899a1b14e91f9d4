"""Streams of random structure: any marking, lists, fields, access points that the standards allow.

A seed gives a stream. What the pictures are predicted from is there, so that a linear decode has
nothing to complain of.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from synthetic import h264, hevc
from synthetic.hevc_cases import Sequence

# -- H.264 --------------------------------------------------------------------------------------


@dataclass
class Marking:
    """The reference frames that a decoder has (8.2.5), as far as whole frames are marked.

    Attributes:
        short: frame_num of short-term references, the oldest first.
        long: long-term indices in use.
        indices: long-term indices allowed.
    """

    most: int
    modulus: int
    short: list[int] = field(default_factory=list)
    long: set[int] = field(default_factory=set)
    indices: int = 0

    def __len__(self) -> int:
        return len(self.short) + len(self.long)

    def before(self, number: int, current: int) -> int:
        """How far frame_num lies before the current one, less one, as operations 1 and 3 say it."""
        return (current - number) % self.modulus - 1

    def slide(self) -> None:
        """Sliding window marking, before a frame is added."""
        if len(self) == self.most:
            self.short.pop(0)

    def operations(self, rng: random.Random, current: int) -> list[tuple[int, ...]]:
        """Random operations, done here, after which there is room for the current frame."""
        made: list[tuple[int, ...]] = []
        is_long = False
        if rng.random() < 0.4:
            self.indices = rng.randint(0, self.most - 1)
            self.long = {index for index in self.long if index < self.indices}
            made.append((4, self.indices))
        if self.short and rng.random() < 0.5:
            number = self.short.pop(rng.randrange(len(self.short)))
            if self.indices and rng.random() < 0.6:
                index = rng.randrange(self.indices)
                self.long.add(index)
                made.append((3, self.before(number, current), index))
            else:
                made.append((1, self.before(number, current)))
        if self.long and rng.random() < 0.3:
            index = rng.choice(sorted(self.long))
            self.long.remove(index)
            made.append((2, index))
        if self.indices and rng.random() < 0.3:
            index = rng.randrange(self.indices)
            self.long.discard(index)
            is_long = True
            made.append((6, index))
        while len(self) >= self.most:
            if self.short:
                made.insert(0, (1, self.before(self.short.pop(0), current)))
            else:
                index = self.long.pop()
                made.insert(0, (2, index))
        if is_long:
            self.long.add(index)
        else:
            self.short.append(current)
        # operation 4 comes first, as indices are to be allowed before they are given; what makes
        # room, before all
        return made

    def lists(self, rng: random.Random, current: int, refs: int) -> list[tuple[int, int]]:
        """Operations that put random references in front of a list."""
        made = []
        last = current
        for _ in range(rng.randint(1, refs)):
            if self.long and (not self.short or rng.random() < 0.4):
                made.append((2, rng.choice(sorted(self.long))))
                continue
            number = rng.choice(self.short)
            made.append((0, last - number - 1) if number < last else (1, number - last - 1))
            if number == last:
                # once around
                made[-1] = (0, self.modulus - 1)
            last = number
        return made


def random_h264(seed: int, groups: int = 4) -> bytes:
    """A stream of so many groups of pictures."""
    rng = random.Random(f"h264/{seed}")
    frames_only = rng.random() < 0.5
    sps = h264.Sps(
        max_refs=rng.randint(1, 4),
        frames_only=frames_only,
        mbaff=not frames_only and rng.random() < 0.5,
        height=2 if frames_only else 4,
        frame_num_bits=rng.choice((4, 4, 6)),
        poc_lsb_bits=rng.choice((6, 8)),
    )
    coder = h264.Coder(sps, seed=seed)
    marking = Marking(sps.max_refs, 1 << sps.frame_num_bits)
    previous = 0
    for _ in range(groups):
        marking.short, marking.long, marking.indices = [0], set(), 0
        previous = 0
        _h264_picture(coder, rng, h264.Picture("I", idr=True, slices=rng.randint(1, 2)))
        anchor = 0
        for _ in range(rng.randint(2, 8)):
            step = rng.choice((2, 4, 8))
            shown = [anchor + step, *rng.sample(range(anchor + 2, anchor + step, 2), step // 2 - 1)]
            for number, poc in enumerate(shown):
                ref = number == 0 or rng.random() < 0.4
                current = (previous + 1) % marking.modulus
                kind = "P" if number == 0 else rng.choice("PBB")
                if rng.random() < 0.05:
                    kind = "I"
                refs = (rng.randint(1, len(marking)), rng.randint(1, len(marking)))
                modify: list[Any] = [(), ()]
                in_fields = not frames_only and rng.random() < 0.4
                if not in_fields:
                    for k in range(2):
                        if rng.random() < 0.4:
                            modify[k] = marking.lists(rng, current, refs[k])
                mmco: list[tuple[int, ...]] = []
                # marking by fields is told twice; here it is left to the sliding window
                can_slide = len(marking) < marking.most or marking.short
                if ref and not in_fields and (not can_slide or rng.random() < 0.4):
                    mmco = marking.operations(rng, current)
                elif ref and can_slide:
                    marking.slide()
                    marking.short.append(current)
                else:
                    ref = False
                picture = h264.Picture(
                    kind,
                    ref=ref,
                    poc=poc,
                    refs=refs,
                    modify=(modify[0], modify[1]),
                    mmco=mmco,
                    spatial=rng.random() < 0.5,
                    slices=rng.randint(1, 2),
                    frame_num=current,
                )
                _h264_picture(coder, rng, picture, in_fields)
                if ref:
                    previous = current
            anchor += step
    return coder.bytes()


def _h264_picture(
    coder: h264.Coder, rng: random.Random, picture: h264.Picture, in_fields: bool = False
) -> None:
    if not in_fields:
        coder.picture(picture)
        return
    coder.picture(_replaced(picture, field="top", slices=1))
    second = "P" if picture.kind == "I" else picture.kind
    if not picture.ref and second == "P" and picture.kind == "I":
        second = "I"
    coder.picture(
        _replaced(picture, kind=second, field="bottom", second=True, slices=1, poc=picture.poc + 1)
    )


def _replaced(picture: h264.Picture, **changes: Any) -> h264.Picture:
    return h264.Picture(**{**vars(picture), **changes})


# -- HEVC ---------------------------------------------------------------------------------------


def random_hevc(seed: int, groups: int = 4) -> bytes:
    """A stream of so many groups of pictures."""
    rng = random.Random(f"hevc/{seed}")
    made = Sequence(
        hevc.Sps(
            long_term=rng.random() < 0.5,
            motion_prediction=rng.random() < 0.5,
            poc_lsb_bits=rng.choice((4, 5, 8)),
        ),
        hevc.Pps(
            dependent=rng.random() < 0.4,
            output_flag=rng.random() < 0.4,
            list_modification=rng.random() < 0.5,
        ),
    )
    made.coder = hevc.Coder(made.coder.sps, made.coder.pps, seed=seed)
    anchor = 0
    for group in range(groups):
        anchor = _hevc_access(made, rng, group, anchor)
        for _ in range(rng.randint(2, 7)):
            step = rng.choice((1, 2, 4))
            for number, poc in enumerate(
                [anchor + step, *rng.sample(range(anchor + 1, anchor + step), step - 1)]
            ):
                _hevc_picture(made, rng, "P" if number == 0 else "B", poc, keep=number == 0)
            anchor += step
    return made.coder.bytes()


def _hevc_access(made: Sequence, rng: random.Random, group: int, anchor: int) -> int:
    """A random access point, perhaps with leading pictures; returns its POC."""
    nal = rng.choice((hevc.IDR_N_LP, hevc.IDR_W_RADL, hevc.CRA, hevc.CRA, hevc.BLA_W_LP))
    if group == 0:
        nal = rng.choice((hevc.IDR_N_LP, hevc.CRA))
    before = max(made.kept, default=None)
    poc = 0 if nal in (hevc.IDR_N_LP, hevc.IDR_W_RADL) else anchor + 4
    ends = group > 0 and rng.random() < 0.3
    made.long = {}
    if ends or group == 0:
        made.kept = []
    made.intra(poc, nal, before=[hevc.unit(hevc.EOS)] if ends else [])
    if nal == hevc.IDR_W_RADL:
        made.leading(-2, hevc.RADL_N, [0])
    elif nal in (hevc.CRA, hevc.BLA_W_LP) and before is not None and before < poc - 2:
        # refers across the random access point, to what may be gone
        made.kept = [before, poc]
        made.leading(poc - 2, hevc.RASL_N, [before, poc])
        made.leading(poc - 1, hevc.RASL_N, [before])
    made.kept = [poc]
    return poc


def _hevc_picture(made: Sequence, rng: random.Random, kind: str, poc: int, *, keep: bool) -> None:
    sps, pps = made.coder.sps, made.coder.pps
    drop = [one for one in made.kept[:-1] if rng.random() < 0.4 or poc - one > 6]
    stays = [one for one in made.kept if one not in drop]
    # one that is shown before all that still comes
    if sps.long_term and keep and len(stays) > 1 and rng.random() < 0.3 and not made.long:
        one = min(stays)
        drop.append(one)
        stays.remove(one)
        made.long[one] = True
    elif made.long and rng.random() < 0.1:
        made.long = {}
    if len(stays) + len(made.long) > 4:
        drop += stays[:-3]
        stays = stays[-3:]
    there = [*stays, *made.long]
    use = rng.sample(there, rng.randint(1, len(there)))
    refs = (rng.randint(1, 3), rng.randint(1, 3))
    modified: list[list[int] | None] = [
        [rng.randrange(len(use)) for _ in range(count)] if rng.random() < 0.5 else None
        for count in refs
    ]
    collocated = None
    if sps.motion_prediction and rng.random() < 0.7:
        collocated = rng.randrange(2) if kind == "B" else 0
    segments = [rng.random() < 0.6 for _ in range(rng.randint(0, 2))] if pps.dependent else []
    made.inter(
        kind,
        poc,
        use,
        keep=keep or rng.random() < 0.3,
        drop=drop,
        refs=refs,
        lists=(modified[0], modified[1]),
        collocated=collocated,
        segments=tuple(segments),
        output=rng.random() < 0.8,
    )
