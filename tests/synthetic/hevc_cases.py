"""Odd HEVC streams. The comment at the head of each says what is odd about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from synthetic import hevc
from synthetic.case import Case, slices, values
from synthetic.hevc import Coder, Picture, Pps, Sps, unit
from synthetic.trace import Trace, Unit

CASES: list[Case] = []


def case(
    odd: Callable[[Trace], bool], *, clean: bool = True, versions: bool = True
) -> Callable[[Callable[[], Sequence]], Callable[[], Sequence]]:
    """Add the stream that a function makes."""

    def add(function: Callable[[], Sequence]) -> Callable[[], Sequence]:
        name = "hevc_" + function.__name__
        CASES.append(Case(name, "hevc", lambda: function().coder.bytes(), odd, clean, versions))
        return function

    return add


class Sequence:
    """A coder, and the pictures that are kept for reference.

    Attributes:
        coder: what writes.
        kept: picture order counts of short-term references.
        long: those of long-term references, and whether their msb are sent.
    """

    def __init__(self, sps: Sps | None = None, pps: Pps | None = None) -> None:
        self.coder = Coder(sps or Sps(), pps or Pps())
        self.kept: list[int] = []
        self.long: dict[int, bool] = {}

    def intra(self, poc: int = 0, nal: int = hevc.IDR_N_LP, **more: Any) -> None:
        """A random access point, which voids what was kept unless leading pictures follow."""
        short: list[tuple[int, bool]] = []
        if nal == hevc.CRA:
            short = [(one, False) for one in self.kept]
        else:
            self.kept = []
            self.long = {}
        self.coder.picture(Picture("I", poc, nal, short=short, **more))
        self.kept.append(poc)

    def inter(
        self,
        kind: str,
        poc: int,
        use: Iterable[int],
        *,
        keep: bool = True,
        drop: Iterable[int] = (),
        **more: Any,
    ) -> None:
        """A picture that uses these pictures, after dropping those."""
        self.kept = [one for one in self.kept if one not in set(drop)]
        used = list(use)
        short = [(one, one in used) for one in self.kept]
        long = [(one, one in used, msb) for one, msb in self.long.items()]
        before = [one for one in used if one in self.kept and one < poc]
        after = [one for one in used if one in self.kept and one > poc]
        total = len(before) + len(after) + sum(one[1] for one in long)
        more.setdefault("refs", (total, total))
        more.setdefault("nal", hevc.TRAIL_R if keep else hevc.TRAIL_N)
        self.coder.picture(Picture(kind, poc, short=short, long=long, **more))
        if keep:
            self.kept.append(poc)

    def run(self, first: int, number: int, step: int = 4, refs: int = 2) -> int:
        """P pictures with a B picture in front of each; returns the POC of the last."""
        poc = first
        for k in range(number):
            poc = first + k * step
            recent = sorted(self.kept)[-refs:]
            self.inter("P", poc, recent, drop=[one for one in self.kept if one not in recent])
            self.inter("B", poc - step // 2, [recent[-1], poc], keep=False)
        return poc

    def leading(self, poc: int, nal: int, use: Iterable[int]) -> None:
        """A leading picture that no other refers to."""
        self.inter("B", poc, use, keep=False, nal=nal)


def _kinds(*kinds: int) -> Callable[[Trace], bool]:
    """Whether the stream has slices of these NAL unit types, in this order."""

    def odd(units: Trace) -> bool:
        left = list(kinds)
        for kind in units.types:
            if left and kind == left[0]:
                left.pop(0)
        return not left

    return odd


# -- reference picture sets ---------------------------------------------------------------------


@case(
    lambda units: (
        {0, 1} <= set(values(units, "used_by_curr_pic_lt_flag"))
        and {0, 1} <= set(values(units, "delta_poc_msb_present_flag"))
    )
)
def long_term() -> Sequence:
    # long-term references: named by lsb and by the whole count, used and kept for later
    made = Sequence(Sps(long_term=True, poc_lsb_bits=4))
    made.intra()
    made.run(4, 1)
    # the IDR picture becomes a long-term one
    made.kept = [4]
    made.long = {0: True}
    for poc in range(8, 60, 4):
        last = made.kept[-1]
        use = [0, last] if poc % 8 else [last]
        made.inter("P", poc, use, drop=made.kept[:-1])
        made.inter("B", poc - 2, [0, last, poc], keep=False, refs=(3, 2))
    made.long = {0: True, 56: False}
    made.kept = [one for one in made.kept if one != 56]
    made.inter("P", 60, [0, 56])
    made.inter("P", 62, [56, 60])
    made.inter("P", 64, [0, 60, 62])
    return made


@case(lambda units: len(values(units, "list_entry_l1")) > 2 and 2 in values(units, "list_entry_l0"))
def modified_lists() -> Sequence:
    # both lists in an order of their own, with a long-term picture in front and with repeats
    made = Sequence(Sps(long_term=True), Pps(list_modification=True))
    made.intra()
    made.run(4, 2)
    made.kept = [one for one in made.kept if one != 0]
    made.long = {0: False}
    for poc in range(12, 56, 4):
        last = made.kept[-2:]
        made.inter(
            "P", poc, [0, *last], drop=made.kept[:-2], refs=(4, 1), lists=([2, 0, 2, 1], None)
        )
        made.inter(
            "B",
            poc - 2,
            [0, last[-1], poc],
            keep=False,
            refs=(2, 3),
            lists=([2, 1], [2, 0, 0]) if poc % 8 else (None, [1, 2, 1]),
        )
    return made


@case(lambda units: set(values(units, "log2_max_pic_order_cnt_lsb_minus4")) == {0})
def poc_wrap() -> Sequence:
    # four bits of picture order count, which wrap every four references, in layers
    made = Sequence(Sps(poc_lsb_bits=4, layers=2))
    made.intra()
    for poc in range(4, 100, 4):
        made.inter("P", poc, [poc - 4], drop=[poc - 8])
        made.inter("B", poc - 2, [poc - 4, poc], keep=False, layer=1, nal=hevc.TSA_N)
    return made


def _unsent(units: list[Unit]) -> bool:
    """Whether a negative reference of a slice is no picture of the stream (without wraps)."""
    sent, missing = set(), False
    for one in slices(units):
        poc = one.get("slice_pic_order_cnt_lsb") or 0
        if 16 <= (one.get("nal_unit_type") or 0) <= 20:
            sent = set()
        at = poc
        for delta in one.all("delta_poc_s0_minus1"):
            at -= delta + 1
            missing |= at not in sent
        sent.add(poc)
    return missing


@case(_unsent, versions=False)
def missing_unused() -> Sequence:
    # the reference picture sets name pictures that were never sent, but nothing uses them
    made = Sequence(Sps())
    made.intra()
    for poc in range(4, 60, 4):
        made.coder.picture(Picture("P", poc, short=[(poc - 4, True), (poc - 3, False)]))
    return made


@case(_unsent, clean=False, versions=False)
def missing_used() -> Sequence:
    # pictures are predicted from some that were never sent
    made = Sequence(Sps())
    made.intra()
    made.run(4, 4)
    made.kept.append(17)
    made.inter("P", 20, [16, 17])
    made.inter("P", 24, [16, 20], drop=[17])
    made.intra(32)
    made.run(36, 4)
    return made


@case(_unsent, clean=False, versions=False)
def lost_pictures() -> Sequence:
    # access units are missing
    made = Sequence(Sps())
    made.intra()
    made.run(4, 8)
    for number in (11, 6, 5):
        del made.coder.units[number]
    return made


@case(
    lambda units: (
        1 in values(units, "slice_temporal_mvp_enabled_flag")
        and {0, 1} <= set(values(units, "collocated_from_l0_flag"))
    )
)
def temporal_motion() -> Sequence:
    # motion predicted from pictures of either list, long-term ones included
    made = Sequence(Sps(motion_prediction=True, long_term=True))
    made.coder.motion = 20
    made.intra()
    made.inter("P", 4, [0])
    made.kept, made.long = [4], {0: False}
    for poc in range(8, 60, 4):
        made.inter("P", poc, [0, poc - 4], drop=[poc - 8], collocated=0 if poc % 8 else None)
        made.inter(
            "B", poc - 2, [0, poc - 4, poc], keep=False, refs=(3, 2), collocated=poc // 4 % 2
        )
    return made


# -- slices and output --------------------------------------------------------------------------


@case(lambda units: {0, 1} <= set(values(units, "dependent_slice_segment_flag")))
def dependent_slices() -> Sequence:
    # slice segments that go on from the one before, and slices of their own, in one picture
    made = Sequence(Sps(), Pps(dependent=True))
    made.intra(segments=(True, False, True))
    for poc in range(2, 40, 2):
        segments = [(True,), (False, True), (True, True, True), (False, False)][poc // 2 % 4]
        made.inter("B" if poc % 4 else "P", poc, [poc - 2], drop=[poc - 4], segments=segments)
    return made


@case(lambda units: {0, 1} <= set(values(units, "pic_output_flag")))
def hidden() -> Sequence:
    # pictures that are never shown, referenced by those that are, a random access point among them
    made = Sequence(Sps(), Pps(output_flag=True))
    made.intra(output=False)
    for poc in range(4, 60, 4):
        if poc == 32:
            made.intra(poc, hevc.CRA, output=False)
            made.kept = [32]
            continue
        made.inter("P", poc, [poc - 4], drop=[poc - 8], output=poc % 12 != 0)
        made.inter("B", poc - 2, [poc - 4, poc], keep=False, output=poc % 8 == 0)
    return made


@case(lambda units: 1 in values(units, "no_output_of_prior_pics_flag"))
def discarded() -> Sequence:
    # an IDR picture that tells to throw away what was not shown yet
    made = Sequence(Sps(reorder=3))
    made.intra()
    for start in range(3):
        made.inter("P", 8, [0])
        made.inter("B", 4, [0, 8])
        made.inter("B", 2, [0, 4], keep=False)
        made.inter("P", 16, [8], drop=[0, 4])
        made.intra(discard=start != 1)
    made.inter("P", 4, [0])
    return made


# -- random access points -----------------------------------------------------------------------


def _open_gops(nal: int, leading: int, **more: Any) -> Sequence:
    made = Sequence()
    made.intra()
    last = made.run(4, 3)
    for turn in range(2):
        poc = last + 8
        before = made.kept[-1]
        made.intra(poc, nal if turn else hevc.CRA, **more)
        if nal != hevc.CRA and turn:
            # what the set of a leading picture names is gone
            made.kept = [before, poc] if leading == hevc.RASL_N else [poc]
        use = [poc] if leading == hevc.RADL_N and turn else [before, poc]
        kind = leading if turn else hevc.RASL_N
        made.leading(poc - 4, kind, use)
        made.leading(poc - 2, kind, use)
        made.inter("P", poc + 4, [poc], drop=[one for one in made.kept if one != poc])
        last = made.run(poc + 8, 2)
    return made


@case(_kinds(hevc.CRA, hevc.RASL_N, hevc.BLA_W_LP, hevc.RASL_N))
def bla_rasl() -> Sequence:
    # a splice: leading pictures after it refer across it and are not shown
    return _open_gops(hevc.BLA_W_LP, hevc.RASL_N)


@case(_kinds(hevc.BLA_W_RADL, hevc.RADL_N))
def bla_radl() -> Sequence:
    # a splice with leading pictures that don't refer across it
    return _open_gops(hevc.BLA_W_RADL, hevc.RADL_N)


@case(_kinds(hevc.BLA_N_LP))
def bla_alone() -> Sequence:
    # a splice without leading pictures, then a random access point with some
    made = Sequence()
    made.intra()
    made.run(4, 3)
    made.intra(20, hevc.BLA_N_LP)
    made.run(24, 3)
    before = made.kept[-1]
    made.intra(40, hevc.CRA)
    made.leading(38, hevc.RASL_N, [before, 40])
    made.inter("P", 44, [40], drop=[one for one in made.kept if one != 40])
    return made


@case(_kinds(hevc.EOS, hevc.CRA, hevc.RASL_N))
def cra_after_eos() -> Sequence:
    # an end of sequence makes the next random access point begin anew: its leading pictures are
    # not shown
    return _open_gops(hevc.CRA, hevc.RASL_N, before=[unit(hevc.EOS)])


@case(_kinds(hevc.EOB, hevc.IDR_N_LP))
def end_of_bitstream() -> Sequence:
    # an end of bitstream in the middle of the file
    made = Sequence()
    made.intra()
    made.run(4, 3)
    made.intra(before=[unit(hevc.EOB)])
    made.run(4, 3)
    return made


@case(_kinds(hevc.CRA, hevc.RASL_N, hevc.CRA))
def starts_with_cra() -> Sequence:
    # the stream begins with a CRA picture and leading pictures that can't be decoded
    made = Sequence()
    made.intra(20, hevc.CRA)
    made.kept = [12, 20]
    made.leading(16, hevc.RASL_N, [12, 20])
    made.leading(18, hevc.RASL_N, [12, 20])
    made.inter("P", 24, [20], drop=[12])
    last = made.run(28, 3)
    made.intra(last + 4, hevc.CRA)
    made.leading(last + 2, hevc.RASL_N, [last, last + 4])
    return made


@case(
    lambda units: slices(units)[0].get("nal_unit_type") == hevc.TRAIL_R, clean=False, versions=False
)
def starts_in_the_middle() -> Sequence:
    # the stream begins with pictures that refer to nothing
    made = Sequence()
    made.kept = [0, 4]
    made.run(8, 3)
    made.intra(24, hevc.CRA)
    made.kept = [24]
    made.run(28, 4)
    return made


@case(_kinds(hevc.IDR_W_RADL, hevc.RADL_N))
def idr_radl() -> Sequence:
    # an IDR picture with leading pictures: they have negative picture order counts
    made = Sequence()
    made.intra(nal=hevc.IDR_W_RADL)
    for _ in range(3):
        made.run(4, 2)
        made.intra(nal=hevc.IDR_W_RADL)
        made.leading(-4, hevc.RADL_N, [0])
        made.leading(-2, hevc.RADL_N, [0])
    return made


# -- parameter sets -----------------------------------------------------------------------------


def _resized(nal: int) -> Sequence:
    made = Sequence()
    made.intra()
    last = made.run(4, 3)
    for width, height in ((4, 3), (2, 2), (3, 2)):
        made.coder.sps = replace(made.coder.sps, width=width, height=height)
        made.coder.parameter_sets()
        poc = 0 if nal == hevc.IDR_N_LP else last + 4
        before = [unit(hevc.EOS)] if nal == hevc.CRA else []
        made.kept = []
        made.intra(poc, nal, before=before)
        last = made.run(poc + 4, 3)
    return made


def _sizes(units: list[Unit]) -> bool:
    return len(set(values(units, "pic_width_in_luma_samples"))) > 2


@case(_sizes)
def resized_idr() -> Sequence:
    # the resolution changes at IDR pictures
    return _resized(hevc.IDR_N_LP)


@case(_sizes)
def resized_cra() -> Sequence:
    # the resolution changes at CRA pictures after an end of sequence
    return _resized(hevc.CRA)


@case(_sizes)
def resized_bla() -> Sequence:
    # the resolution changes at BLA pictures
    return _resized(hevc.BLA_N_LP)


@case(
    lambda units: (
        len({s.get("slice_pic_parameter_set_id") for s in slices(units)}) == 2
        and len(values(units, "init_qp_minus26")) > 4
    )
)
def changed_pps() -> Sequence:
    # pictures take turns with two parameter sets, one of which gets other contents in between
    made = Sequence()
    made.coder.parameter_sets(Pps(id=7, init_qp=50))
    made.intra()
    for k in range(1, 20):
        if k % 4 == 0:
            made.coder.pps = Pps(init_qp=26 + k)
            made.coder.parameter_sets()
        other = Pps(id=7, init_qp=50) if k % 2 else None
        made.inter("B" if k % 3 else "P", 2 * k, [2 * k - 2], drop=[2 * k - 4], pps=other)
    return made


@case(lambda units: max(values(units, "nuh_temporal_id_plus1")) > 2)
def layers() -> Sequence:
    # three temporal layers, whose upper pictures don't count for the picture order
    made = Sequence(Sps(layers=3, poc_lsb_bits=4, buffer=5))
    made.intra()
    for poc in range(8, 80, 8):
        made.inter("P", poc, [poc - 8], drop=[one for one in made.kept if one != poc - 8])
        made.inter("B", poc - 4, [poc - 8, poc], layer=1, nal=hevc.TSA_R)
        made.inter("B", poc - 6, [poc - 8, poc - 4], layer=2, nal=hevc.TSA_N, keep=False)
        made.inter("B", poc - 2, [poc - 4, poc], layer=2, nal=hevc.TSA_N, keep=False)
    return made
