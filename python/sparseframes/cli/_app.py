"""The group of commands, and how their failures are told: one line on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

import sparseframes
from sparseframes.cli._common import Failure
from sparseframes.cli._demo import demo
from sparseframes.cli._frames import frames
from sparseframes.cli._index import index
from sparseframes.cli._info import info
from sparseframes.cli._lerobot import lerobot
from sparseframes.cli._plan import plan
from sparseframes.cli._transcode import check_ddra, transcode
from sparseframes.cli._validate import validate


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    sparseframes.__version__,
    message=f"sparseframes %(version)s, FFmpeg {sparseframes.ffmpeg_version()}",
)
def app() -> None:
    """Exact frames from video files, decoding no more than they need."""


for command in (info, plan, frames, index, validate, transcode, check_ddra, lerobot, demo):
    app.add_command(command)


def run(arguments: Sequence[str]) -> int:
    """Run with these arguments; returns the exit status."""
    try:
        status = app.main(list(arguments), prog_name="sparseframes", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except click.Abort:
        return _fail("interrupted", 130)
    except (sparseframes.SparseError, Failure, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # whoever read our output has had enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        return _fail(str(error), getattr(error, "status", 1))
    return status if isinstance(status, int) else 0


def _fail(message: str, status: int) -> int:
    click.echo("sparseframes: " + " ".join(message.split()), err=True)
    return status
