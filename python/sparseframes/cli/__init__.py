"""The command ``sparseframes``. Needs click and rich: ``pip install 'sparseframes[cli]'``."""

from __future__ import annotations

import io
import sys


def main() -> None:
    """Run the command with the arguments of the process, and exit."""
    try:
        from sparseframes.cli._app import run
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(
            f"sparseframes: {error.name} is missing; install it with "
            "\"pip install 'sparseframes[cli]'\""
        )
    # names of files may hold what the terminal's encoding doesn't
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))
