#!/usr/bin/env python3
"""Check that a shared library exports the sparse_ functions and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys


def main() -> int:
    """Print the symbols that should not be seen."""
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", sys.argv[1]],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = [line.split()[-1].split("@")[0] for line in listing.splitlines()]
    if not any(name.startswith("sparse_") for name in names):
        print(f"{sys.argv[1]} exports no sparse_ function")
        return 1
    # a sanitized build exports the tables of its instrumentation
    strange = [n for n in names if not re.match(r"sparse_[a-z]|(__asan_|__odr_asan|__ubsan_)", n)]
    for name in strange:
        print(f"{sys.argv[1]} exports {name}")
    return bool(strange)


if __name__ == "__main__":
    sys.exit(main())
