"""What the commands that encode share: options, and a SIGTERM that is an interruption."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

codec_option = click.option(
    "--codec", type=click.Choice(["hevc", "h264"]), default="hevc", show_default=True
)
idr_option = click.option(
    "--idr",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Start anew every so many periods, for players that seek.",
)
threads_option = click.option("--threads", type=click.IntRange(1), help="Threads of one encoder.")
jobs_option = click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Files at once."
)


def quality_options(command: Command) -> Command:
    """The profile, and what may be had otherwise than it says."""
    for option in (
        click.option("--tune", help="The encoder's tune; the profile's if not given."),
        click.option("--preset", help="The encoder's preset; the profile's if not given."),
        click.option("--crf", type=float, help="Constant quality; the profile's if not given."),
        click.option(
            "--profile",
            type=click.Choice(["compact", "balanced", "fast"]),
            default="balanced",
            show_default=True,
        ),
    ):
        command = option(command)
    return command


@contextmanager
def terminable() -> Iterator[None]:
    """A SIGTERM stops the encoders and leaves nothing half written, as an interruption does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, old)
