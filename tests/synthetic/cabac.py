"""The arithmetic encoder of HEVC, and the contexts of the syntax elements used here."""

from __future__ import annotations

from synthetic.bits import Bits

# rangeTabLps (table 9-52), a row a state
# fmt: off
_RANGES = (
    (128, 176, 208, 240), (128, 167, 197, 227), (128, 158, 187, 216), (123, 150, 178, 205), (116
    , 142, 169, 195), (111, 135, 160, 185), (105, 128, 152, 175), (100, 122, 144, 166), (95, 116
    , 137, 158), (90, 110, 130, 150), (85, 104, 123, 142), (81, 99, 117, 135), (77, 94, 111, 128
    ), (73, 89, 105, 122), (69, 85, 100, 116), (66, 80, 95, 110), (62, 76, 90, 104), (59, 72, 86
    , 99), (56, 69, 81, 94), (53, 65, 77, 89), (51, 62, 73, 85), (48, 59, 69, 80), (46, 56, 66,
    76), (43, 53, 63, 72), (41, 50, 59, 69), (39, 48, 56, 65), (37, 45, 54, 62), (35, 43, 51, 59
    ), (33, 41, 48, 56), (32, 39, 46, 53), (30, 37, 43, 50), (29, 35, 41, 48), (27, 33, 39, 45),
     (26, 31, 37, 43), (24, 30, 35, 41), (23, 28, 33, 39), (22, 27, 32, 37), (21, 26, 30, 35), (
    20, 24, 29, 33), (19, 23, 27, 31), (18, 22, 26, 30), (17, 21, 25, 28), (16, 20, 23, 27), (15
    , 19, 22, 25), (14, 18, 21, 24), (14, 17, 20, 23), (13, 16, 19, 22), (12, 15, 18, 21), (12,
    14, 17, 20), (11, 14, 16, 19), (11, 13, 15, 18), (10, 12, 15, 17), (10, 12, 14, 16), (9, 11,
     13, 15), (9, 11, 12, 14), (8, 10, 12, 14), (8, 9, 11, 13), (7, 9, 11, 12), (7, 9, 10, 12),
    (7, 8, 10, 11), (6, 8, 9, 11), (6, 7, 9, 10), (6, 7, 8, 9), (2, 2, 2, 2),
)
# fmt: on
# transIdxLps (table 9-53)
# fmt: off
_AFTER_LPS = (
    0, 0, 1, 2, 2, 4, 4, 5, 6, 7, 8, 9, 9, 11, 11, 12, 13, 13, 15, 15, 16, 16, 18, 18, 19, 19,
    21, 21, 22, 22, 23, 24, 24, 25, 26, 26, 27, 27, 28, 29, 29, 30, 30, 30, 31, 32, 32, 33, 33,
    33, 34, 34, 35, 35, 35, 36, 36, 36, 37, 37, 37, 38, 38, 63,
)
# fmt: on
# initValue for I, P and B slices (tables 9-5 to 9-37); I slices have part_mode alone
_INITIAL = {
    "cu_skip_flag": ((154,) * 3, (197, 185, 201), (197, 185, 201)),
    "pred_mode_flag": ((154,), (149,), (134,)),
    "part_mode": ((184,), (154,), (154,)),
    "merge_flag": ((154,), (110,), (154,)),
    "inter_pred_idc": ((154,) * 5, (95, 79, 63, 31, 31), (95, 79, 63, 31, 31)),
    "ref_idx": ((154,) * 2, (153, 153), (153, 153)),
    "mvp_flag": ((154,), (168,), (168,)),
    "rqt_root_cbf": ((154,), (79,), (79,)),
    "abs_mvd_greater0": ((154,), (140,), (169,)),
    "abs_mvd_greater1": ((154,), (198,), (198,)),
}
Contexts = dict[str, list[list[int]]]


def initial_contexts(kind: int, qp: int) -> Contexts:
    """State and most probable symbol of all contexts (9.3.2.2); kind is 0 for I, 1 P, 2 B."""
    contexts: Contexts = {}
    for name, values in _INITIAL.items():
        contexts[name] = []
        for value in values[kind]:
            slope, offset = (value >> 4) * 5 - 45, ((value & 15) << 3) - 16
            state = min(max(((slope * min(max(qp, 0), 51)) >> 4) + offset, 1), 126)
            contexts[name].append([state - 64, 1] if state > 63 else [63 - state, 0])
    return contexts


class Cabac:
    """Writes bins (9.3.4.3, seen from the other side) to bits that are at a byte boundary."""

    def __init__(self, bits: Bits, contexts: Contexts) -> None:
        self.bits = bits
        self.contexts = contexts
        self._start()

    def _start(self) -> None:
        self._low, self._range = 0, 510
        self._first, self._outstanding = True, 0

    def bin(self, name: str, number: int, value: object) -> None:
        """A bin with a context."""
        context = self.contexts[name][number]
        state, most = context
        lps = _RANGES[state][self._range >> 6 & 3]
        self._range -= lps
        if int(bool(value)) != most:
            self._low += self._range
            self._range = lps
            if state == 0:
                context[1] = 1 - most
            context[0] = _AFTER_LPS[state]
        else:
            context[0] = min(state + 1, 62)
        self._renormalise()

    def bypass(self, value: object) -> None:
        """A bin of equal chances."""
        self._low = self._low * 2 + (self._range if value else 0)
        self._out(1024)

    def terminate(self, value: object) -> None:
        """The bin that may end it all; after a one come the last bits, a stop bit and zeros."""
        self._range -= 2
        if not value:
            self._renormalise()
            return
        self._low += self._range
        self._range = 2
        self._renormalise()
        self._put(self._low >> 9 & 1)
        self.bits.u(2, self._low >> 7 & 3 | 1)
        self.bits.align()

    def pcm(self, samples: bytes) -> None:
        """Samples after a pcm_flag; coding begins anew after them."""
        self.bits.raw(samples)
        self._start()

    def _renormalise(self) -> None:
        while self._range < 256:
            self._range *= 2
            self._low *= 2
            self._out(1024)

    def _out(self, top: int) -> None:
        """One bit of the low end, which has been doubled, leaves."""
        if self._low >= top:
            self._low -= top
            self._put(1)
        elif self._low < top // 2:
            self._put(0)
        else:
            self._low -= top // 2
            self._outstanding += 1

    def _put(self, bit: int) -> None:
        if self._first:
            self._first = False
        else:
            self.bits.u(1, bit)
        for _ in range(self._outstanding):
            self.bits.u(1, 1 - bit)
        self._outstanding = 0
