"""The installed package as a whole."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import sparseframes
from sparseframes import _native


def test_versions_agree() -> None:
    library = _native.ffi.string(_native.lib.sparse_version()).decode()
    assert sparseframes.__version__ == version("sparseframes") == library


def test_import_needs_no_extra() -> None:
    code = (
        "import sys\n"
        "for name in ('click', 'rich', 'av', 'torch', 'PIL'): sys.modules[name] = None\n"
        "import sparseframes\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_extension_exports_its_entry_only() -> None:
    # a second FFmpeg in the process must not meet the symbols of the one inside
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", Path(_native.__file__)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert [line.split()[-1] for line in listing.splitlines()] == ["PyInit__native"]
