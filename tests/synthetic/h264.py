"""A small H.264 encoder: PCM, skipped and compensated macroblocks in CAVLC, any slice header.

Nothing is predicted from a picture of this encoder's own: what the decoder makes of a stream is
what it is. It keeps frame_num right unless told otherwise, and leaves all else to the caller.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from synthetic.bits import Bits, annex_b, escape

SLICE, IDR, SEI, SPS_NAL, PPS_NAL, AUD, END_OF_SEQUENCE = 1, 5, 6, 7, 8, 9, 10
KINDS = {"P": 5, "B": 6, "I": 7}
# mb_type of I_PCM (table 7-11, after those of table 7-13 and 7-14)
PCM = {"I": 25, "P": 5 + 25, "B": 23 + 25}


@dataclass
class Sps:
    """The fields of a sequence parameter set (7.3.2.1.1) that cases change."""

    id: int = 0
    frame_num_bits: int = 4
    poc_type: int = 0
    poc_lsb_bits: int = 6
    delta_always_zero: bool = False
    offset_non_ref: int = 0
    offset_top_bottom: int = 0
    offsets: Sequence[int] = ()
    max_refs: int = 4
    gaps: bool = False
    width: int = 3  # macroblocks
    height: int = 2  # macroblocks of a frame; even unless frames_only
    frames_only: bool = True
    mbaff: bool = False
    reorder: int | None = 2  # None: no bitstream restriction

    def unit(self) -> bytes:
        """The NAL unit."""
        bits = Bits()
        bits.u(8, 77)
        bits.u(8, 0)
        bits.u(8, 31)
        bits.ue(self.id)
        bits.ue(self.frame_num_bits - 4)
        bits.ue(self.poc_type)
        if self.poc_type == 0:
            bits.ue(self.poc_lsb_bits - 4)
        elif self.poc_type == 1:
            bits.flag(self.delta_always_zero)
            bits.se(self.offset_non_ref)
            bits.se(self.offset_top_bottom)
            bits.ue(len(self.offsets))
            for offset in self.offsets:
                bits.se(offset)
        bits.ue(self.max_refs)
        bits.flag(self.gaps)
        bits.ue(self.width - 1)
        bits.ue((self.height if self.frames_only else self.height // 2) - 1)
        bits.flag(self.frames_only)
        if not self.frames_only:
            bits.flag(self.mbaff)
        bits.flag(1)  # direct_8x8_inference_flag
        bits.flag(0)  # frame_cropping_flag
        bits.flag(self.reorder is not None)
        if self.reorder is not None:
            for _ in range(4):  # no aspect ratio, overscan, signal type, chroma location
                bits.flag(0)
            bits.flag(0)  # timing_info_present_flag
            bits.flag(0)  # nal_hrd_parameters_present_flag
            bits.flag(0)  # vcl_hrd_parameters_present_flag
            bits.flag(0)  # pic_struct_present_flag
            bits.flag(1)  # bitstream_restriction_flag
            bits.flag(1)
            for value in (0, 0, 10, 10, self.reorder, max(self.max_refs, self.reorder, 1)):
                bits.ue(value)
        bits.trailing()
        return unit(3, SPS_NAL, bits)


@dataclass
class Pps:
    """The fields of a picture parameter set (7.3.2.2) that cases change."""

    id: int = 0
    sps: int = 0
    poc_present: bool = False
    default_refs: int = 1
    init_qp: int = 26

    def unit(self) -> bytes:
        """The NAL unit."""
        bits = Bits()
        bits.ue(self.id)
        bits.ue(self.sps)
        bits.flag(0)  # CAVLC
        bits.flag(self.poc_present)
        bits.ue(0)  # one slice group
        bits.ue(self.default_refs - 1)
        bits.ue(0)
        bits.flag(0)
        bits.u(2, 0)
        bits.se(self.init_qp - 26)
        bits.se(0)
        bits.se(0)
        bits.flag(0)
        bits.flag(0)
        bits.flag(0)
        bits.trailing()
        return unit(3, PPS_NAL, bits)


def unit(ref_idc: int, kind: int, bits: Bits) -> bytes:
    """A NAL unit (7.3.1)."""
    return bytes([ref_idc << 5 | kind]) + escape(bits.bytes())


def recovery_point(frames: int, *, exact: bool = True, broken: bool = False) -> bytes:
    """An SEI message (D.1.8)."""
    payload = Bits()
    payload.ue(frames)
    payload.flag(exact)
    payload.flag(broken)
    payload.u(2, 0)
    if len(payload) % 8:
        payload.trailing()
    bits = Bits()
    bits.u(8, 6)
    bits.u(8, len(payload.bytes()))
    bits.raw(payload.bytes())
    bits.trailing()
    return unit(0, SEI, bits)


@dataclass
class Picture:
    """One slice that is a whole picture or field.

    Attributes:
        kind: "I", "P" or "B".
        ref: whether it may be referenced: nal_ref_idc.
        poc: picture order count; its lsb for type 0, else delta_pic_order_cnt[0].
        idr, long_term: as nal_unit_type and long_term_reference_flag say.
        field: None for a frame, "top" or "bottom".
        second: the second field of a frame: it has the frame_num of the first.
        refs: entries of list 0 and list 1.
        modify: operations on list 0 and list 1: (modification_of_pic_nums_idc, value).
        mmco: memory management operations with their arguments, without the final 0.
        frame_num: instead of the right one.
        delta_bottom: delta_pic_order_cnt_bottom, or delta_pic_order_cnt[1].
        spatial: direct_spatial_mv_pred_flag.
        slices: number of slices, each of whole rows.
        before: NAL units in front of it.
        pps: parameter set.
    """

    kind: str = "P"
    ref: bool = True
    poc: int = 0
    idr: bool = False
    long_term: bool = False
    field: str | None = None
    second: bool = False
    refs: tuple[int, int] = (1, 1)
    modify: tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]] = ((), ())
    mmco: Sequence[tuple[int, ...]] = ()
    frame_num: int | None = None
    delta_bottom: int = 0
    spatial: bool = True
    slices: int = 1
    before: Sequence[bytes] = ()
    pps: Pps | None = None


@dataclass
class Coder:
    """Writes pictures one after another.

    Attributes:
        sps, pps: what is in use; assign and call `parameter_sets` to change it.
        units: the access units (fields count as one each) so far, each a list of NAL units.
        available: reference frames that there are, by a count that knows operation 3 and 6 as
            neither adding nor removing one.
        motion: the most that a motion vector difference has, in quarter samples.
    """

    sps: Sps = field(default_factory=Sps)
    pps: Pps = field(default_factory=Pps)
    seed: int = 1
    motion: int = 6
    units: list[list[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._pending: list[bytes] = []
        self._frame_num = 0  # of the last reference picture
        self._last = 0  # of the last picture
        self._idr = 0
        self.available = 0
        self.parameter_sets()

    def parameter_sets(self, *sets: Sps | Pps) -> None:
        """Write these, or the ones in use, before the next picture."""
        self._pending += [each.unit() for each in sets or (self.sps, self.pps)]

    def picture(self, picture: Picture) -> None:
        """Write one picture or field."""
        sps = self.sps
        if picture.idr:
            number = 0
            self._idr += not picture.second
        elif picture.second:
            number = self._last
        else:
            number = (self._frame_num + 1) % (1 << sps.frame_num_bits)
        if picture.frame_num is not None:
            number = picture.frame_num
        self._last = number
        units = [*self._pending, *picture.before]
        self._pending = []
        rows = sps.height if picture.field is None else sps.height // 2
        # a row of pairs in an MBAFF frame
        step = 2 if self._pairs(picture) else 1
        cuts = [k * (rows // step) // picture.slices * step for k in range(picture.slices + 1)]
        for first, last in itertools.pairwise(cuts):
            units.append(self._slice(picture, number, first, last))
        self.units.append(units)
        if picture.ref:
            reset = any(operation[0] == 5 for operation in picture.mmco)
            self._frame_num = 0 if reset else number
            if (picture.idr and not picture.second) or reset:
                self.available = 1
            elif not picture.second:
                dropped = sum(operation[0] in (1, 2) for operation in picture.mmco)
                self.available = min(self.available - dropped + 1, sps.max_refs)

    def bytes(self) -> bytes:
        """The byte stream."""
        return b"".join(annex_b(units) for units in self.units)

    # -- inside ---------------------------------------------------------------------------------

    def _pairs(self, picture: Picture) -> bool:
        return self.sps.mbaff and picture.field is None

    def _slice(self, picture: Picture, number: int, first: int, last: int) -> bytes:
        sps, pps = self.sps, picture.pps or self.pps
        bits = Bits()
        pairs = self._pairs(picture)
        bits.ue(first * sps.width // (2 if pairs else 1))
        bits.ue(KINDS[picture.kind])
        bits.ue(pps.id)
        bits.u(sps.frame_num_bits, number)
        if not sps.frames_only:
            bits.flag(picture.field)
            if picture.field:
                bits.flag(picture.field == "bottom")
        if picture.idr:
            bits.ue(self._idr % 2)
        if sps.poc_type == 0:
            bits.u(sps.poc_lsb_bits, picture.poc % (1 << sps.poc_lsb_bits))
            if pps.poc_present and not picture.field:
                bits.se(picture.delta_bottom)
        elif sps.poc_type == 1 and not sps.delta_always_zero:
            bits.se(picture.poc)
            if pps.poc_present and not picture.field:
                bits.se(picture.delta_bottom)
        if picture.kind == "B":
            bits.flag(picture.spatial)
        if picture.kind != "I":
            bits.flag(1)
            bits.ue(picture.refs[0] - 1)
            if picture.kind == "B":
                bits.ue(picture.refs[1] - 1)
            for operations in picture.modify[: 2 if picture.kind == "B" else 1]:
                bits.flag(operations)
                for operation in operations:
                    bits.ue(operation[0])
                    bits.ue(operation[1])
                if operations:
                    bits.ue(3)
        if picture.ref:
            if picture.idr:
                bits.flag(0)
                bits.flag(picture.long_term)
            else:
                bits.flag(picture.mmco)
                for operation in picture.mmco:
                    for value in operation:
                        bits.ue(value)
                if picture.mmco:
                    bits.ue(0)
        bits.se(0)
        self._blocks(bits, picture, (last - first) * sps.width)
        bits.trailing()
        return unit(int(picture.ref), IDR if picture.idr else SLICE, bits)

    def _blocks(self, bits: Bits, picture: Picture, count: int) -> None:
        """slice_data() (7.3.4): one block of PCM at least, others skipped or compensated."""
        pairs = self._pairs(picture)
        coded = self._rng.randrange(count)
        skipped = 0
        in_fields = False
        for number in range(count):
            top = number % 2 == 0
            if pairs and top:
                in_fields = bool(self._rng.getrandbits(1))
            choice = "pcm"
            if picture.kind != "I" and number != coded:
                # skipped blocks of a pair would have the form inferred: none are used there
                choice = self._rng.choice(("skip", "move", "move", "pcm")[pairs:])
            if choice == "skip":
                skipped += 1
                continue
            if picture.kind != "I":
                bits.ue(skipped)
                skipped = 0
            if pairs and top:
                bits.flag(in_fields)
            if choice == "pcm":
                bits.ue(PCM[picture.kind])
                bits.align()
                bits.raw(bytes(self._rng.choices(range(1, 256), k=384)))
            else:
                self._moved(bits, picture, in_fields)
        if skipped:
            bits.ue(skipped)

    def _moved(self, bits: Bits, picture: Picture, in_fields: bool) -> None:
        """A 16x16 block without residual (7.3.5.1)."""
        use = (True, False)
        if picture.kind == "P":
            bits.ue(0)
        else:
            kind = self._rng.randint(1, 3)
            bits.ue(kind)
            use = (kind != 2, kind != 1)
        for each, refs in zip(use, picture.refs, strict=True):
            refs *= 2 if in_fields else 1
            if each and refs > 1:
                bits.te(refs - 1, self._rng.randrange(refs))
        for each in use:
            if each:
                bits.se(self._rng.randint(-self.motion, self.motion))
                bits.se(self._rng.randint(-self.motion, self.motion))
        bits.ue(0)  # coded_block_pattern 0
