"""A small HEVC encoder: PCM, skipped and compensated blocks of 16x16, any slice header.

As in `h264`, nothing is predicted from a picture of its own.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from synthetic.bits import Bits, annex_b, escape
from synthetic.cabac import Cabac, Contexts, initial_contexts

TRAIL_N, TRAIL_R, TSA_N, TSA_R = 0, 1, 2, 3
RADL_N, RADL_R, RASL_N, RASL_R = 6, 7, 8, 9
BLA_W_LP, BLA_W_RADL, BLA_N_LP, IDR_W_RADL, IDR_N_LP, CRA = 16, 17, 18, 19, 20, 21
VPS_NAL, SPS_NAL, PPS_NAL, AUD, EOS, EOB = 32, 33, 34, 35, 36, 37
KINDS = {"B": 0, "P": 1, "I": 2}


def unit(kind: int, bits: Bits | None = None, layer: int = 0) -> bytes:
    """A NAL unit (7.3.1); layer is the temporal id."""
    header = bytes([kind << 1, layer + 1])
    return header + (escape(bits.bytes()) if bits else b"")


@dataclass
class Sps:
    """The fields of a sequence parameter set (7.3.2.2) that cases change."""

    id: int = 0
    width: int = 3  # blocks of 16
    height: int = 2
    poc_lsb_bits: int = 6
    buffer: int = 6
    reorder: int = 2
    long_term: bool = False
    motion_prediction: bool = False  # sps_temporal_mvp_enabled_flag
    layers: int = 1

    def unit(self) -> bytes:
        """The NAL unit."""
        bits = Bits()
        bits.u(4, 0)
        bits.u(3, self.layers - 1)
        bits.flag(1)
        _profile(bits, self.layers)
        bits.ue(self.id)
        bits.ue(1)
        bits.ue(16 * self.width)
        bits.ue(16 * self.height)
        bits.flag(0)
        bits.ue(0)
        bits.ue(0)
        bits.ue(self.poc_lsb_bits - 4)
        bits.flag(0)
        for value in (self.buffer - 1, self.reorder, 0):
            bits.ue(value)
        # blocks of 16, transforms from 4 to 16
        for value in (1, 0, 0, 2, 0, 0):
            bits.ue(value)
        bits.flag(0)  # scaling_list_enabled_flag
        bits.flag(0)  # amp_enabled_flag
        bits.flag(0)  # sample_adaptive_offset_enabled_flag
        bits.flag(1)  # pcm_enabled_flag: 8 bit, blocks of 16
        bits.u(4, 7)
        bits.u(4, 7)
        bits.ue(1)
        bits.ue(0)
        bits.flag(0)
        bits.ue(0)  # no short-term sets: each slice has its own
        bits.flag(self.long_term)
        if self.long_term:
            bits.ue(0)
        bits.flag(self.motion_prediction)
        bits.flag(0)
        bits.flag(0)
        bits.flag(0)
        bits.trailing()
        return unit(SPS_NAL, bits)


@dataclass
class Pps:
    """The fields of a picture parameter set (7.3.2.3) that cases change."""

    id: int = 0
    sps: int = 0
    dependent: bool = False
    output_flag: bool = False
    list_modification: bool = False
    init_qp: int = 26
    curr_pic_ref: bool = False

    def unit(self) -> bytes:
        """The NAL unit."""
        bits = Bits()
        bits.ue(self.id)
        bits.ue(self.sps)
        bits.flag(self.dependent)
        bits.flag(self.output_flag)
        bits.u(3, 0)
        bits.flag(0)
        bits.flag(0)
        bits.ue(0)
        bits.ue(0)
        bits.se(self.init_qp - 26)
        for _ in range(3):
            bits.flag(0)
        bits.se(0)
        bits.se(0)
        for _ in range(6):  # up to entropy_coding_sync_enabled_flag
            bits.flag(0)
        bits.flag(0)  # pps_loop_filter_across_slices_enabled_flag
        bits.flag(0)
        bits.flag(0)
        bits.flag(self.list_modification)
        bits.ue(0)
        bits.flag(0)
        bits.flag(self.curr_pic_ref)  # pps_extension_present_flag
        if self.curr_pic_ref:
            bits.u(8, 0b00010000)  # pps_scc_extension_flag alone
            bits.flag(1)
            bits.flag(0)
            bits.flag(0)
        bits.trailing()
        return unit(PPS_NAL, bits)


def vps(layers: int = 1) -> bytes:
    """A video parameter set (7.3.2.1)."""
    bits = Bits()
    bits.u(4, 0)
    bits.u(2, 3)
    bits.u(6, 0)
    bits.u(3, layers - 1)
    bits.flag(1)
    bits.u(16, 0xFFFF)
    _profile(bits, layers)
    bits.flag(0)
    for value in (5, 2, 0):
        bits.ue(value)
    bits.u(6, 0)
    bits.ue(0)
    bits.flag(0)
    bits.flag(0)
    bits.trailing()
    return unit(VPS_NAL, bits)


def _profile(bits: Bits, layers: int) -> None:
    """profile_tier_level(): Main."""
    bits.u(8, 1)
    bits.u(32, 3 << 29)
    bits.u(4, 0b1001)
    bits.u(44, 0)
    bits.u(8, 93)
    if layers > 1:
        bits.u(16, 0)


@dataclass
class Picture:
    """One picture.

    Attributes:
        kind: "I", "P" or "B".
        poc: picture order count in its sequence.
        nal: NAL unit type.
        short: the short-term reference picture set: POC, and whether it is used by this picture.
        long: the long-term part: POC, whether it is used, whether its msb are sent.
        refs: entries of list 0 and list 1.
        lists: entries for list modification, or None for the initial list.
        output: pic_output_flag.
        segments: for each slice segment after the first, whether it is a dependent one.
        layer: temporal id.
        discard: no_output_of_prior_pics_flag.
        collocated: None, or the list (0 or 1) of the collocated picture.
        before, after: NAL units around it.
        pps: parameter set.
    """

    kind: str = "P"
    poc: int = 0
    nal: int = TRAIL_R
    short: Sequence[tuple[int, bool]] = ()
    long: Sequence[tuple[int, bool, bool]] = ()
    refs: tuple[int, int] = (1, 1)
    lists: tuple[Sequence[int] | None, Sequence[int] | None] = (None, None)
    output: bool = True
    segments: Sequence[bool] = ()
    layer: int = 0
    discard: bool = False
    collocated: int | None = None
    before: Sequence[bytes] = ()
    after: Sequence[bytes] = ()
    pps: Pps | None = None


@dataclass
class Coder:
    """Writes pictures one after another.

    Attributes:
        sps, pps: what is in use; assign and call `parameter_sets` to change it.
        units: the access units so far, each a list of NAL units.
        motion: the most that a motion vector difference has, in quarter samples.
    """

    sps: Sps = field(default_factory=Sps)
    pps: Pps = field(default_factory=Pps)
    seed: int = 1
    motion: int = 6
    units: list[list[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._pending: list[bytes] = [vps(self.sps.layers)]
        self.parameter_sets()

    def parameter_sets(self, *sets: Sps | Pps) -> None:
        """Write these, or the ones in use, before the next picture."""
        self._pending += [each.unit() for each in sets or (self.sps, self.pps)]

    def bytes(self) -> bytes:
        """The byte stream."""
        return b"".join(annex_b(units) for units in self.units)

    def picture(self, picture: Picture) -> None:
        """Write one picture."""
        units = [*self._pending, *picture.before]
        self._pending = []
        size = self.sps.width * self.sps.height
        count = len(picture.segments) + 1
        cuts = [k * size // count for k in range(count + 1)]
        contexts: Contexts = {}
        skipped: list[bool | None] = [None] * size
        for number, (first, last) in enumerate(itertools.pairwise(cuts)):
            dependent = number > 0 and picture.segments[number - 1]
            if not dependent:
                # what other slices hold is not there for this one
                skipped = [None] * size
                qp = (picture.pps or self.pps).init_qp
                contexts = initial_contexts(2 - KINDS[picture.kind], qp)
            bits = Bits()
            self._header(bits, picture, first, dependent)
            self._blocks(Cabac(bits, contexts), picture, first, last, skipped)
            units.append(unit(picture.nal, bits, picture.layer))
        self.units.append([*units, *picture.after])

    # -- inside ---------------------------------------------------------------------------------

    def _header(self, bits: Bits, picture: Picture, first: int, dependent: bool) -> None:
        """slice_segment_header() (7.3.6.1)."""
        sps, pps = self.sps, picture.pps or self.pps
        bits.flag(first == 0)
        if 16 <= picture.nal <= 23:
            bits.flag(picture.discard)
        bits.ue(pps.id)
        if first:
            if pps.dependent:
                bits.flag(dependent)
            bits.u((sps.width * sps.height - 1).bit_length(), first)
        if not dependent:
            bits.ue(KINDS[picture.kind])
            if pps.output_flag:
                bits.flag(picture.output)
            if picture.nal not in (IDR_W_RADL, IDR_N_LP):
                self._sets(bits, picture)
            if picture.kind != "I":
                self._lists(bits, picture)
            bits.se(0)
        bits.trailing()

    def _sets(self, bits: Bits, picture: Picture) -> None:
        sps = self.sps
        most = 1 << sps.poc_lsb_bits
        bits.u(sps.poc_lsb_bits, picture.poc % most)
        bits.flag(0)
        before = sorted((one for one in picture.short if one[0] < picture.poc), reverse=True)
        after = sorted(one for one in picture.short if one[0] > picture.poc)
        bits.ue(len(before))
        bits.ue(len(after))
        for part in (before, after):
            last = picture.poc
            for poc, used in part:
                bits.ue(abs(poc - last) - 1)
                bits.flag(used)
                last = poc
        if sps.long_term:
            bits.ue(len(picture.long))
            cycle = 0
            # by descending lsb cycles, as their differences can't be negative
            for poc, used, msb in sorted(picture.long, reverse=True):
                bits.u(sps.poc_lsb_bits, poc % most)
                bits.flag(used)
                bits.flag(msb)
                if msb:
                    here = picture.poc // most - poc // most
                    bits.ue(here - cycle)
                    cycle = here
        if sps.motion_prediction:
            bits.flag(picture.collocated is not None)

    def _lists(self, bits: Bits, picture: Picture) -> None:
        sps, pps = self.sps, picture.pps or self.pps
        two = picture.kind == "B"
        bits.flag(1)
        bits.ue(picture.refs[0] - 1)
        if two:
            bits.ue(picture.refs[1] - 1)
        total = sum(one[1] for one in [*picture.short, *picture.long])
        if pps.list_modification and total > 1:
            for entries, _ in zip(picture.lists, "01"[: 1 + two], strict=False):
                bits.flag(entries is not None)
                for entry in entries or ():
                    bits.u((total - 1).bit_length(), entry)
        if two:
            bits.flag(0)
        if sps.motion_prediction and picture.collocated is not None:
            if two:
                bits.flag(picture.collocated == 0)
            if picture.refs[picture.collocated] > 1:
                bits.ue(picture.refs[picture.collocated] - 1)
        bits.ue(4)  # one candidate for merging

    def _blocks(
        self, cabac: Cabac, picture: Picture, first: int, last: int, skipped: list[bool | None]
    ) -> None:
        """slice_segment_data(): one block of PCM at least, others skipped or compensated."""
        width = self.sps.width
        coded = self._rng.randrange(first, last)
        for number in range(first, last):
            choice = "pcm"
            if picture.kind != "I" and number != coded:
                choice = self._rng.choice(("skip", "move", "move", "pcm"))
            if picture.kind != "I":
                left = skipped[number - 1] if number % width else None
                above = skipped[number - width] if number >= width else None
                cabac.bin("cu_skip_flag", bool(left) + bool(above), choice == "skip")
                skipped[number] = choice == "skip"
            if choice == "pcm":
                if picture.kind != "I":
                    cabac.bin("pred_mode_flag", 0, 1)
                cabac.bin("part_mode", 0, 1)
                cabac.terminate(1)
                cabac.pcm(bytes(self._rng.choices(range(256), k=384)))
            elif choice == "move":
                self._moved(cabac, picture)
            cabac.terminate(number == last - 1)

    def _moved(self, cabac: Cabac, picture: Picture) -> None:
        """An inter block of 16x16 without residual."""
        cabac.bin("pred_mode_flag", 0, 0)
        cabac.bin("part_mode", 0, 1)
        cabac.bin("merge_flag", 0, 0)
        use = (True, False)
        if picture.kind == "B":
            kind = self._rng.randrange(3)
            cabac.bin("inter_pred_idc", 0, kind == 2)
            if kind < 2:
                cabac.bin("inter_pred_idc", 4, kind)
            use = (kind != 1, kind != 0)
        for each, refs in zip(use, picture.refs, strict=True):
            if each:
                self._reference(cabac, refs)
                self._vector(cabac)
                cabac.bin("mvp_flag", 0, self._rng.getrandbits(1))
        cabac.bin("rqt_root_cbf", 0, 0)

    def _reference(self, cabac: Cabac, refs: int) -> None:
        chosen = self._rng.randrange(refs)
        for k in range(min(chosen + 1, refs - 1)):
            if k < 2:
                cabac.bin("ref_idx", k, k < chosen)
            else:
                cabac.bypass(k < chosen)

    def _vector(self, cabac: Cabac) -> None:
        """mvd_coding() (7.3.8.9)."""
        vector = [self._rng.randint(-self.motion, self.motion) for _ in range(2)]
        for value in vector:
            cabac.bin("abs_mvd_greater0", 0, value)
        for value in vector:
            if value:
                cabac.bin("abs_mvd_greater1", 0, abs(value) > 1)
        for value in vector:
            if abs(value) > 1:
                self._exp_golomb(cabac, abs(value) - 2)
            if value:
                cabac.bypass(value < 0)

    @staticmethod
    def _exp_golomb(cabac: Cabac, value: int) -> None:
        """A k-th order Exp-Golomb code of order 1 (9.3.3.5)."""
        order = 1
        while value >= 1 << order:
            cabac.bypass(1)
            value -= 1 << order
            order += 1
        cabac.bypass(0)
        for k in reversed(range(order)):
            cabac.bypass(value >> k & 1)
