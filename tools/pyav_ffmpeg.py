"""The FFmpeg of PyAV's wheel under the names that torchcodec asks the loader for.

A wheel's libraries have hashes in their names. Links without them, and the folder that the
libraries lie in, make another package of the same environment load them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_LIBRARY = re.compile(r"lib(av\w+|sw\w+)-[0-9a-f]+\.so\.(\d+)\.")


def link(site: Path, folder: Path) -> str:
    """Link what ``site/av.libs`` holds into a folder; the value for LD_LIBRARY_PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    for library in (site / "av.libs").glob("lib*"):
        match = _LIBRARY.match(library.name)
        if not match:
            continue
        name = folder / f"lib{match[1]}.so.{match[2]}"
        # one that is right may be in use
        if name.resolve() != library.resolve():
            name.unlink(missing_ok=True)
            name.symlink_to(library.resolve())
    return os.pathsep.join([str(site / "av.libs"), str(folder)])
