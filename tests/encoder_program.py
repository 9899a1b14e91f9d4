"""The encoder program, for tests that are left out where it isn't built."""

from __future__ import annotations

import pytest

from sparseframes.encode import ProgramNotFoundError, find_program


def why_missing() -> str | None:
    """Why there is no encoder program; None: there is one."""
    try:
        find_program()
    except ProgramNotFoundError as error:
        return str(error)
    return None


MISSING = why_missing()
needs_program = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
