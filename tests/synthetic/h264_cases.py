"""Odd H.264 streams. The comment at the head of each says what is odd about it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from synthetic.case import Case, slices, values
from synthetic.h264 import END_OF_SEQUENCE, Coder, Picture, Pps, Sps, recovery_point
from synthetic.trace import Trace, Unit

CASES: list[Case] = []

I, P, B = "I", "P", "B"  # noqa: E741 - the standard's names


def case(
    odd: Callable[[Trace], bool], *, clean: bool = True, versions: bool = True
) -> Callable[[Callable[[], Coder]], Callable[[], Coder]]:
    """Add the stream that a function makes."""

    def add(function: Callable[[], Coder]) -> Callable[[], Coder]:
        name = "h264_" + function.__name__
        CASES.append(Case(name, "h264", lambda: function().bytes(), odd, clean, versions))
        return function

    return add


def plain(coder: Coder, first: int, number: int, refs: int = 2, step: int = 2) -> int:
    """P pictures of up to so many references, with POC first, first + step, ...; the next POC."""
    for k in range(number):
        coder.picture(
            Picture(P, poc=first + step * k, refs=(max(1, min(refs, coder.available)), 1))
        )
    return first + step * number


def pair(coder: Coder, first: Picture, second: Picture) -> None:
    """A frame in two fields."""
    coder.picture(replace(first, field="top"))
    coder.picture(replace(second, field="bottom", second=True))


def fields(coder: Coder, kind: str, poc: int, refs: int = 2, *, ref: bool = True) -> None:
    """A frame in two fields that are coded alike."""
    pair(
        coder,
        Picture(kind, poc=poc, refs=(refs, 1), ref=ref),
        Picture(kind, poc=poc + 1, refs=(refs, 1), ref=ref),
    )


def idr_fields(coder: Coder) -> None:
    """An IDR picture whose second field is predicted from the first."""
    pair(coder, Picture(I, idr=True), Picture(P, poc=1))


# -- reference marking --------------------------------------------------------------------------


@case(lambda units: set(values(units, "memory_management_control_operation")) >= set(range(7)))
def mmco() -> Coder:
    # every memory management operation, 1 to 6, with references to what it leaves
    coder = Coder(Sps(max_refs=4))
    coder.picture(Picture(I, idr=True))
    plain(coder, 2, 3)
    # 4: two long-term indices; 3: the picture before the last becomes long-term 1; 1: the IDR
    # picture is dropped
    coder.picture(Picture(P, poc=8, refs=(3, 1), mmco=[(4, 2), (3, 1, 1), (1, 3)]))
    # 6: this one becomes long-term 0; 1: the last short one is dropped
    coder.picture(Picture(P, poc=10, refs=(4, 1), mmco=[(1, 0), (6, 0)]))
    for poc in (12, 14, 16):
        coder.picture(Picture(P, poc=poc, refs=(3, 1)))
        coder.picture(Picture(B, poc=poc - 1, refs=(2, 2), ref=False))
    # 2: long-term 1 is dropped
    coder.picture(Picture(P, poc=18, refs=(2, 1), mmco=[(2, 1)]))
    plain(coder, 20, 3, refs=3)
    # 4: no long-term index is left
    coder.picture(Picture(P, poc=26, refs=(2, 1), mmco=[(4, 0)]))
    plain(coder, 28, 2)
    # 5: all are dropped, and the counters begin anew
    coder.picture(Picture(P, poc=34, refs=(2, 1), mmco=[(5,)]))
    coder.picture(Picture(P, poc=4, refs=(1, 1)))
    plain(coder, 6, 4)
    return coder


@case(
    lambda units: (
        {2, 3, 6} <= set(values(units, "memory_management_control_operation"))
        and 1 in values(units, "field_pic_flag")
        and 2 in values(units, "modification_of_pic_nums_idc")
    )
)
def long_term_fields() -> Coder:
    # fields become long-term references, one and both of a frame; lists are led by long-term fields
    coder = Coder(Sps(max_refs=4, frames_only=False, height=4))
    idr_fields(coder)
    fields(coder, P, 4)
    # both fields of the frame get long-term index 0, each with its own operation
    pair(
        coder,
        Picture(P, poc=8, refs=(4, 1), mmco=[(4, 2), (6, 0)]),
        Picture(P, poc=9, refs=(4, 1), mmco=[(6, 0)]),
    )
    fields(coder, P, 12, 5)
    # the fields before get long-term index 1, and the fields of the IDR picture are dropped
    pair(
        coder,
        Picture(P, poc=16, refs=(3, 1), mmco=[(1, 7), (1, 8), (3, 1, 1)]),
        Picture(P, poc=17, refs=(3, 1), mmco=[(3, 1, 1)]),
    )
    for poc in (20, 24):
        pair(
            coder,
            Picture(P, poc=poc, refs=(3, 1), modify=([(2, 1), (2, 0)], ())),
            Picture(B, poc=poc + 1, refs=(2, 2), modify=([(2, 3)], [(2, 1)])),
        )
    # one field of long-term frame 0 is dropped: the other is left alone; so are two short-term ones
    pair(
        coder,
        Picture(P, poc=28, refs=(2, 1), mmco=[(2, 0), (1, 3), (1, 4)]),
        Picture(P, poc=29, refs=(2, 1)),
    )
    for poc in (32, 36, 40):
        fields(coder, P, poc, 5)
        fields(coder, B, poc - 2, 2, ref=False)
    return coder


@case(lambda units: 1 in values(units, "long_term_reference_flag"))
def long_term_idr() -> Coder:
    # the IDR picture itself is a long-term reference and stays one
    coder = Coder(Sps(max_refs=3))
    coder.picture(Picture(I, idr=True, long_term=True))
    plain(coder, 2, 12, refs=2)
    coder.picture(Picture(I, idr=True, long_term=True))
    plain(coder, 2, 1, refs=1)
    plain(coder, 4, 10, refs=3)
    return coder


@case(
    lambda units: (
        {0, 1, 2} <= set(values(units, "modification_of_pic_nums_idc"))
        and len([s for s in slices(units) if s.get("slice_type") == 6]) > 3
    )
)
def reordered_lists() -> Coder:
    # both lists are reordered by all operations, in several slices a picture
    coder = Coder(Sps(max_refs=4))
    coder.picture(Picture(I, idr=True, slices=2))
    plain(coder, 4, 2, refs=1)
    coder.picture(Picture(P, poc=12, refs=(2, 1), mmco=[(4, 1), (3, 1, 0)]))
    for poc in range(16, 64, 4):
        back = [(0, 1), (1, 0), (2, 0)]
        coder.picture(Picture(P, poc=poc, refs=(3, 1), modify=(back, ()), slices=2))
        coder.picture(
            Picture(
                B,
                poc=poc - 2,
                refs=(3, 2),
                ref=False,
                modify=([(2, 0), (0, 0)], [(0, 1), (2, 0)]),
                spatial=poc % 8 == 0,
                slices=2,
            )
        )
    return coder


# -- frame_num ----------------------------------------------------------------------------------


def _gaps(units: list[Unit]) -> bool:
    """Whether frame_num jumps where that is allowed."""
    numbers = [s.get("frame_num") or 0 for s in slices(units)]
    most = 1 << (4 + values(units, "log2_max_frame_num_minus4")[0])
    jumps = [(b - a) % most for a, b in itertools.pairwise(numbers) if b]
    return max(jumps) > 1 and values(units, "gaps_in_frame_num_allowed_flag")[0] == 1


@case(_gaps)
def gaps() -> Coder:
    # frame_num jumps as the parameter set allows; fillers stand in the lists and are referenced
    coder = Coder(Sps(max_refs=4, gaps=True))
    coder.picture(Picture(I, idr=True))
    plain(coder, 2, 3, refs=1)
    coder.picture(Picture(P, poc=10, frame_num=6))
    plain(coder, 12, 2, refs=4)
    coder.picture(Picture(P, poc=18, frame_num=15, refs=(4, 1)))
    plain(coder, 20, 6, refs=3)
    coder.picture(Picture(B, poc=31, refs=(2, 2), ref=False))
    return coder


@case(_gaps)
def temporal_layers() -> Coder:
    # as an encoder with temporal layers whose upper layer was dropped: every other frame_num is
    # missing, and pictures refer to those that are there
    coder = Coder(Sps(max_refs=4, gaps=True))
    coder.picture(Picture(I, idr=True))
    for k in range(1, 14):
        coder.picture(Picture(P, poc=2 * k, frame_num=2 * k % 16, modify=([(0, 1)], ())))
    return coder


def _lost(units: list[Unit]) -> bool:
    return _gaps(
        [u for u in units if u.get("gaps_in_frame_num_allowed_flag") is None]
        + [Unit("", [("gaps_in_frame_num_allowed_flag", 1), ("log2_max_frame_num_minus4", 0)])]
    ) and not any(values(units, "gaps_in_frame_num_allowed_flag"))


@case(_lost, clean=False)
def lost_frames() -> Coder:
    # access units are missing, and frame_num jumps although it may not
    coder = Coder(Sps(max_refs=3))
    coder.picture(Picture(I, idr=True))
    plain(coder, 2, 12)
    for number in (9, 4, 3):
        del coder.units[number]
    return coder


# -- fields -------------------------------------------------------------------------------------


@case(
    lambda units: (
        1 in values(units, "mb_adaptive_frame_field_flag")
        and {0, 1} <= set(values(units, "field_pic_flag"))
    )
)
def paff_mbaff() -> Coder:
    # frames of macroblock pairs in frame or field form, and pictures in two fields, turn about
    coder = Coder(Sps(max_refs=3, frames_only=False, mbaff=True, height=4))
    idr_fields(coder)
    for k in range(1, 10):
        poc = 8 * k
        if k % 3 == 0:
            fields(coder, P, poc, 3)
        else:
            coder.picture(Picture(P, poc=poc, refs=(min(k, 2), 1)))
        if k % 2:
            coder.picture(Picture(B, poc=poc - 4, ref=False, spatial=k % 4 == 1))
        else:
            fields(coder, B, poc - 4, ref=False)
    return coder


def _alone(units: list[Unit]) -> bool:
    """Whether a field is followed by one of the same parity, or by a frame."""
    kinds = [(s.get("field_pic_flag"), s.get("bottom_field_flag")) for s in slices(units)]
    waiting = None
    for kind in kinds:
        if waiting and kind == (1, 1 - waiting[1]):
            waiting = None
        elif waiting:
            return True
        elif kind[0]:
            waiting = kind
    return False


@case(_alone)
def lone_fields() -> Coder:
    # fields without a second one, referenced and not, before frames and before fields
    coder = Coder(Sps(max_refs=4, frames_only=False, height=4))
    idr_fields(coder)
    fields(coder, P, 4)
    coder.picture(Picture(P, poc=8, field="top", refs=(2, 1)))
    # the lone field is no reference of a frame
    coder.picture(Picture(P, poc=12, modify=([(0, 1)], ())))
    fields(coder, P, 16, 3)
    coder.picture(Picture(P, poc=20, field="top", refs=(2, 1), ref=False))
    fields(coder, P, 24, 2)
    for poc in (28, 32, 36):
        fields(coder, P, poc, 2)
    return coder


@case(_alone, clean=False)
def fields_of_one_parity() -> Coder:
    # top fields only, then bottom fields only: no two of them make a frame
    coder = Coder(Sps(max_refs=3, frames_only=False, height=4))
    idr_fields(coder)
    for poc in range(4, 28, 4):
        coder.picture(Picture(P, poc=poc, field="top" if poc < 16 else "bottom"))
    for poc in (28, 32, 36):
        fields(coder, P, poc, 2)
    return coder


# -- parameter sets -----------------------------------------------------------------------------


@case(
    lambda units: (
        len(set(values(units, "seq_parameter_set_id"))) > 1
        and len({s.get("pic_parameter_set_id") for s in slices(units)}) > 2
    )
)
def parameter_sets() -> Coder:
    # two sequence parameter sets of different sizes, and pictures that take turns with three
    # picture parameter sets
    small, large = Sps(id=0), Sps(id=3, width=4, height=3, max_refs=2)
    sets = [Pps(id=0, sps=0), Pps(id=5, sps=0, init_qp=48), Pps(id=200, sps=3, init_qp=40)]
    coder = Coder(small, sets[0])
    coder.parameter_sets(large, *sets[1:])
    for _ in range(2):
        coder.sps, coder.pps = small, sets[0]
        coder.picture(Picture(I, idr=True))
        for k in range(1, 8):
            coder.picture(Picture(P, poc=2 * k, pps=sets[k % 2]))
        coder.sps, coder.pps = large, sets[2]
        coder.picture(Picture(I, idr=True))
        plain(coder, 2, 4, refs=1)
    return coder


def _changed(units: list[Unit]) -> bool:
    """Whether the same picture parameter set comes with other contents, and no IDR follows."""
    seen: dict[int, list[tuple[str, int]]] = {}
    changed = False
    for unit in units:
        if unit.get("pic_init_qp_minus26") is not None:
            number = unit.get("pic_parameter_set_id") or 0
            changed |= seen.get(number, unit.elements) != unit.elements
            seen[number] = unit.elements
        elif changed and unit.get("slice_type") is not None:
            return unit.get("nal_unit_type") == 1
    return False


@case(_changed)
def changed_pps() -> Coder:
    # a picture parameter set gets other contents in front of P and of B pictures: other deblocking
    coder = Coder(pps=Pps(init_qp=20))
    coder.picture(Picture(I, idr=True))
    for k, qp in enumerate((50, 20, 36, 51, 30), 1):
        poc = plain(coder, 16 * k - 14, 3, step=4)
        coder.parameter_sets(Pps(init_qp=qp))
        coder.picture(Picture(B if k % 2 else P, poc=poc - 2, ref=k % 2 == 0))
    return coder


@case(
    lambda units: len({tuple(u.elements) for u in units if u.get("profile_idc")}) == 2,
)
def changed_sps() -> Coder:
    # a sequence parameter set with another number of references at a recovery point, not an IDR
    coder = Coder(Sps(max_refs=4))
    coder.picture(Picture(I, idr=True))
    plain(coder, 2, 6, refs=1)
    coder.sps = replace(coder.sps, max_refs=2)
    coder.parameter_sets()
    coder.picture(Picture(I, poc=14, before=[recovery_point(0)]))
    plain(coder, 16, 8, refs=1)
    return coder


# -- random access ------------------------------------------------------------------------------


@case(lambda units: 1 in values(units, "broken_link_flag"))
def broken_link() -> Coder:
    # recovery points with a broken link: pictures shown before them refer to others than they
    # were encoded with
    coder = Coder(Sps(max_refs=3))
    coder.picture(Picture(I, idr=True))
    poc = plain(coder, 4, 4, step=4)
    for _ in range(2):
        coder.picture(Picture(I, poc=poc + 4, before=[recovery_point(0, broken=True)]))
        coder.picture(Picture(B, poc=poc, ref=False))
        coder.picture(Picture(B, poc=poc + 2, ref=False))
        poc = plain(coder, poc + 8, 4, refs=1, step=4)
    return coder


@case(
    lambda units: (
        0 in values(units, "exact_match_flag") and max(values(units, "recovery_frame_cnt")) > 1
    )
)
def slow_recovery() -> Coder:
    # recovery points at P pictures that are exact only some pictures later, or never quite
    coder = Coder(Sps(max_refs=3))
    coder.picture(Picture(I, idr=True))
    poc = plain(coder, 2, 4)
    for frames, exact in ((3, False), (5, True), (0, False)):
        message = recovery_point(frames, exact=exact)
        coder.picture(Picture(P, poc=poc, refs=(1, 1), before=[message]))
        poc = plain(coder, poc + 2, 5)
    return coder


@case(lambda units: slices(units)[0].get("nal_unit_type") == 1, clean=False)
def no_idr() -> Coder:
    # the stream begins with a recovery point in the middle of frame_num and POC, without any IDR
    coder = Coder(Sps(max_refs=3))
    coder.picture(Picture(I, poc=40, frame_num=11, before=[recovery_point(2)]))
    plain(coder, 44, 1, refs=1)
    coder.picture(Picture(B, poc=42, ref=False))
    plain(coder, 46, 8)
    return coder


@case(lambda units: slices(units)[0].get("slice_type") == 5, clean=False)
def late_idr() -> Coder:
    # P pictures that refer to nothing come before the first IDR picture
    coder = Coder(Sps(max_refs=3))
    plain(coder, 30, 3, refs=1)
    coder.picture(Picture(I, idr=True))
    plain(coder, 2, 8)
    return coder


@case(lambda units: END_OF_SEQUENCE in units.types)
def end_of_sequence() -> Coder:
    # an end of sequence in front of an IDR picture
    coder = Coder()
    coder.picture(Picture(I, idr=True))
    plain(coder, 2, 5)
    coder.picture(Picture(B, poc=11, ref=False))
    coder.units[-1].append(bytes([END_OF_SEQUENCE]))
    coder.picture(Picture(I, idr=True))
    plain(coder, 2, 5)
    return coder


# -- picture order count ------------------------------------------------------------------------


@case(
    lambda units: (
        values(units, "pic_order_cnt_type")[0] == 1
        and values(units, "num_ref_frames_in_pic_order_cnt_cycle")[0] == 2
    )
)
def poc_type_1() -> Coder:
    # picture order by a cycle of expected differences, with pictures that deviate
    sps = Sps(poc_type=1, offsets=(6, 4), offset_non_ref=-3, max_refs=3)
    coder = Coder(sps)
    coder.picture(Picture(I, idr=True))
    for k in range(1, 22):
        coder.picture(Picture(P, refs=(min(k, 2), 1), poc=k % 3 == 1))
        if k % 2:
            coder.picture(Picture(B, ref=False, poc=-(k % 4 == 1)))
    return coder


@case(
    lambda units: (
        values(units, "pic_order_cnt_type")[0] == 1
        and 1 in values(units, "field_pic_flag")
        and values(units, "offset_for_top_to_bottom_field")[0] == 1
    )
)
def poc_type_1_fields() -> Coder:
    # the same in fields and frames
    sps = Sps(
        poc_type=1,
        offsets=(8,),
        offset_non_ref=-4,
        offset_top_bottom=1,
        frames_only=False,
        height=4,
    )
    coder = Coder(sps, Pps(poc_present=True))
    pair(coder, Picture(I, idr=True), Picture(P))
    for k in range(1, 10):
        if k % 2:
            pair(coder, Picture(P, refs=(2, 1)), Picture(P, refs=(2, 1)))
        else:
            coder.picture(Picture(P, delta_bottom=1))
        pair(coder, Picture(B, ref=False), Picture(B, ref=False))
    return coder


@case(lambda units: values(units, "pic_order_cnt_type")[0] == 2)
def poc_type_2() -> Coder:
    # shown in decode order, with and without a reference, over several wraps of frame_num
    coder = Coder(Sps(poc_type=2, max_refs=3, reorder=0))
    coder.picture(Picture(I, idr=True))
    for k in range(1, 50):
        coder.picture(Picture(P, refs=(min(k, 3) if k < 3 else 2, 1), ref=k % 3 != 2))
    return coder


@case(
    lambda units: (
        values(units, "log2_max_pic_order_cnt_lsb_minus4")[0] == 0
        and len([s for s in slices(units) if s.get("pic_order_cnt_lsb") == 0]) > 4
    )
)
def poc_wrap() -> Coder:
    # four bits of picture order count, which wrap every four frames; the same for frame_num
    coder = Coder(Sps(poc_lsb_bits=4, max_refs=2))
    coder.picture(Picture(I, idr=True))
    for k in range(1, 40):
        coder.picture(Picture(P, poc=4 * k, refs=(1 + (k > 1), 1)))
        coder.picture(Picture(B, poc=4 * k - 2, ref=False, spatial=k % 2 == 0))
    return coder


@case(lambda units: values(units, "bitstream_restriction_flag") == [])
def unstated_reorder() -> Coder:
    # nothing says how many pictures wait for their turn: the decoder guesses, and guesses again
    # when pictures that are referenced come out of order only late in the stream
    coder = Coder(Sps(reorder=None, max_refs=4))
    coder.picture(Picture(I, idr=True))
    poc = plain(coder, 2, 10)
    for _ in range(4):
        coder.picture(Picture(P, poc=poc + 6))
        coder.picture(Picture(B, poc=poc + 2))
        coder.picture(Picture(B, poc=poc, ref=False))
        coder.picture(Picture(B, poc=poc + 4, ref=False))
        poc += 8
    return coder
