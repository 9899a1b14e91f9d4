"""The installed package as a whole."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import sparseframes
from sparseframes import _native


def test_versions_agree() -> None:
    library = _native.ffi.string(_native.lib.sparse_version()).decode()
    assert sparseframes.__version__ == version("sparseframes") == library


EXTRAS = ("click", "rich", "av", "PIL", "pyarrow", "fsspec", "lerobot", "torch")


@pytest.mark.parametrize("module", ["sparseframes", "sparseframes.lerobot"])
def test_import_needs_no_extra(module: str) -> None:
    code = f"import sys\nfor name in {EXTRAS}: sys.modules[name] = None\nimport {module}\n"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "module", ["sparseframes", "sparseframes.lerobot", "sparseframes.cli._app"]
)
def test_import_brings_no_torch(module: str) -> None:
    code = f"import sys\nimport {module}\nprint('torch' in sys.modules, 'pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"]


def test_missing_extras_are_named() -> None:
    code = (
        "import sys\n"
        "for name in ('torch', 'pyarrow'): sys.modules[name] = None\n"
        "import sparseframes.lerobot as lerobot\n"
        "def told(call, *arguments):\n"
        "    try: call(*arguments)\n"
        "    except ImportError as error: print(error)\n"
        "told(lerobot.decode_video_frames, 'x.mp4', [0.0], 1e-4)\n"
        "told(__import__, 'sparseframes.torch')\n"
        "told(lerobot._layout.need_parquet)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert "pip install 'sparseframes[torch]'" in lines[0]
    assert "pip install 'sparseframes[torch]'" in lines[1]
    assert "pip install 'sparseframes[lerobot]'" in lines[2]


def test_extension_exports_its_entry_only() -> None:
    # a second FFmpeg in the process must not meet the symbols of the one inside
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", Path(_native.__file__)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert [line.split()[-1] for line in listing.splitlines()] == ["PyInit__native"]
