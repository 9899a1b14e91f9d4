#!/usr/bin/env python3
"""Print the requirements that pyproject.toml names, one a line.

Used as: requirements.py GROUP..., where a group is ``build`` or an optional dependency. What the
package itself needs is always among them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def strings(text: str, table: str, key: str) -> list[str]:
    """A list of strings in a TOML file: Python 3.10 has no parser of it."""
    body = re.search(rf"^\[{re.escape(table)}\]$(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    found = body and re.search(rf"^{key} = \[(.*?)\]$", body[1], re.MULTILINE | re.DOTALL)
    if not found:
        raise SystemExit(f"{PYPROJECT} has no {key} in [{table}]")
    return re.findall(r'"([^"]*)"', found[1])


def names(*groups: str) -> list[str]:
    """What the package itself and these groups need."""
    text = PYPROJECT.read_text(encoding="utf-8")
    found = strings(text, "project", "dependencies")
    for group in groups:
        if group == "build":
            found += strings(text, "build-system", "requires")
        else:
            found += strings(text, "project.optional-dependencies", group)
    return list(dict.fromkeys(found))


def main() -> None:
    """Print them."""
    print("\n".join(names(*sys.argv[1:])))


if __name__ == "__main__":
    main()
