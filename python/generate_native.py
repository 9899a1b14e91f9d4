"""Generate the C code of the extension sparseframes._native.

Used as: generate_native.py DECLARATIONS PRELUDE OUTPUT
"""

from __future__ import annotations

import sys
from pathlib import Path

import cffi


def main() -> None:
    """Write the C file that the build compiles."""
    declarations, prelude, output = (Path(argument) for argument in sys.argv[1:])
    ffi = cffi.FFI()
    ffi.cdef(declarations.read_text(encoding="utf-8"))
    ffi.set_source("sparseframes._native", prelude.read_text(encoding="utf-8"))
    ffi.emit_c_code(str(output))


if __name__ == "__main__":
    main()
