"""``python -m sparseframes.cli``."""

from __future__ import annotations

from sparseframes.cli import main

main()
