"""What the commands share: frame lists, progress, tables and JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

# how long work has to last before its progress is shown
PATIENCE_SECONDS = 1.0


class Failure(Exception):  # noqa: N818 - it is not thrown at programmers
    """What ends a command with one line on stderr and an exit status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
frames_option = click.option(
    "--frames",
    "spec",
    required=True,
    metavar="LIST",
    help="Frames: numbers and slices, as in 3,50,7,-1 or 10:50:5.",
)


def parse_frames(spec: str, count: Callable[[], int]) -> list[int]:
    """Frame indices of a list such as "3,50,7" or "10:50:5,-1"; count is called if needed."""
    indices: list[int] = []
    for part in spec.split(","):
        try:
            numbers = [int(text) if text.strip() else None for text in part.split(":")]
        except ValueError:
            raise Failure(f"not a frame number or slice: {part.strip()!r}", 2) from None
        if len(numbers) == 1 and numbers[0] is not None:
            indices.append(numbers[0])
        elif len(numbers) in (2, 3) and (len(numbers) == 2 or numbers[2] != 0):
            indices.extend(range(*slice(*numbers).indices(count())))
        else:
            raise Failure(f"not a frame number or slice: {part.strip()!r}", 2)
    if not indices:
        raise Failure(f"no frames in {spec!r}", 2)
    return indices


def counted(count: int, noun: str) -> str:
    """A number with its noun, which takes an s for all but one."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def need(module: str, package: str, purpose: str) -> None:
    """Fail in words when an optional package is missing."""
    try:
        __import__(module)
    except ImportError as error:
        raise Failure(f"{purpose} needs {package}: pip install {package} ({error})", 2) from None


def console() -> Console:
    """Standard output for tables; as wide as it takes when it is no terminal."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=160)


def print_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, indent=2, allow_nan=False))


class Bar:
    """A progress bar with the time left, on stderr if that is a terminal, for work that lasts.

    A context manager; call it with the share done, 0 to 1.
    """

    def __init__(self, title: str, *, hidden: bool = False) -> None:
        self._title = title
        self._hidden = hidden or not sys.stderr.isatty()
        self._begun = time.monotonic()
        self._progress: Progress | None = None
        self._task: Any = None

    def __call__(self, share: float, title: str | None = None) -> None:
        """Show the share done."""
        self._title = title or self._title
        if self._hidden:
            return
        if self._progress is None:
            if time.monotonic() - self._begun < PATIENCE_SECONDS:
                return
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._progress.add_task(self._title, total=1.0)
            self._progress.start()
        self._progress.update(self._task, completed=share, description=self._title)

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
