"""Finding the encoder program, running it, and files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from sparseframes.errors import SourceError, SparseError

VARIABLE = "SPARSEFRAMES_FFMPEG"
LOST_PART = re.compile(r"\.(?P<name>.+)\.sparseframes-(?P<pid>\d+)\.part")
MESSAGE_LINES = 3


class EncodeError(SparseError):
    """The program could not encode."""


class ProgramNotFoundError(EncodeError, FileNotFoundError):
    """The encoder program is not there."""


def find_program(name: str = "ffmpeg") -> Path:
    """Path of the encoder program, or of the ``ffprobe`` beside it.

    It is the one that the environment variable SPARSEFRAMES_FFMPEG names, or else the last that
    ``make encoder`` has built.

    Raises:
        ProgramNotFoundError: there is none.
    """
    named = os.environ.get(VARIABLE)
    if named:
        found = shutil.which(named)
        if found is None:
            raise ProgramNotFoundError(f"{VARIABLE} is {named!r}, which is not a program")
        program = Path(found)
    else:
        base = os.environ.get("XDG_CACHE_HOME")
        cache = Path(base if base else Path.home() / ".cache") / "sparseframes"
        program = cache / "encoder" / "latest" / "bin" / "ffmpeg"
    program = program if name == "ffmpeg" else program.with_name(name)
    if not os.access(program, os.X_OK):
        raise ProgramNotFoundError(
            f"the encoder program is not built ({program} is missing): run `make encoder` in "
            f"sparseframes' sources, or set {VARIABLE} to an ffmpeg that has it"
        )
    return program


def probe(path: str) -> dict[str, Any]:
    """What ffprobe tells of a file's format and streams.

    Raises:
        SourceError: the file can't be read.
    """
    command = [
        str(find_program("ffprobe")),
        *("-v", "error", "-of", "json", "-show_format", "-show_streams", f"file:{path}"),
    ]
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}", file=path) from None
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    facts: dict[str, Any] = json.loads(done.stdout or "{}")
    if done.returncode != 0 or not facts.get("format"):
        raise SourceError(f"{path}: {message_of(done.stderr, path)}", file=path)
    return facts


def message_of(stderr: str, path: str = "") -> str:
    """What a failed program said, in one line."""
    lines = []
    for line in stderr.splitlines():
        text = re.sub(r"^(\[[^]]*\]\s*)+", "", line.strip())
        text = text.replace(f"file:{path}", path) if path else text
        if path and text.startswith(f"{path}: "):
            text = text[len(path) + 2 :]
        if text and text not in lines:
            lines.append(text)
    if any("ddra" in line and "ecognized" in line for line in lines):
        return f"this ffmpeg has no DDRA encoders: run `make encoder`, or unset {VARIABLE}"
    return "; ".join(lines[:MESSAGE_LINES]) or "the program failed without a word"


def failure_of(code: int, stderr: str, path: str = "") -> str:
    """Why a program failed, in one line, from its exit status and what it said."""
    if code >= 0:
        return message_of(stderr, path)
    number = -code
    if number == signal.SIGXFSZ:
        return "a file would become larger than this process may write"
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"the program was ended by {name}"


def start(
    arguments: Sequence[str], stderr: IO[bytes], *, bound: bool = False, **pipes: Any
) -> subprocess.Popen[bytes]:
    """Start the program with a list of arguments; if bound, it ends with the calling thread."""
    command = [str(find_program()), "-hide_banner", "-nostdin", "-y", "-v", "error", *arguments]
    binder = shutil.which("setpriv") if bound else None
    if binder is not None:
        command = [binder, "--pdeathsig", "KILL", *command]
    return subprocess.Popen(command, stderr=stderr, **pipes)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the program at once, if it still runs."""
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def run(
    arguments: Sequence[str], what: str, progress: Callable[[dict[str, str]], object] | None = None
) -> str:
    """Run the program to its end; what it wrote to stderr.

    Args:
        arguments: the program's.
        what: name of the file concerned, for messages.
        progress: called now and then with what ``-progress`` reports.

    Raises:
        EncodeError: it failed.
    """
    with tempfile.TemporaryFile() as log:
        process = start(
            ["-nostats", "-progress", "pipe:1", *arguments],
            log,
            bound=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            state: dict[str, str] = {}
            for line in process.stdout:
                key, _, value = line.decode("utf-8", "replace").strip().partition("=")
                state[key] = value
                if key == "progress" and progress is not None:
                    progress(state)
            process.wait()
        finally:
            stop(process)
        log.seek(0)
        text = log.read().decode("utf-8", "replace")
    if process.returncode != 0:
        raise EncodeError(f"{what}: {failure_of(process.returncode, text, what)}", file=what)
    for key, word in (("drop_frames", "dropped"), ("dup_frames", "repeated")):
        if int(state.get(key, "0") or 0):
            raise EncodeError(f"{what}: the program {word} {state[key]} frames", file=what)
    return text


@contextlib.contextmanager
def whole_file(path: Path, *, force: bool) -> Iterator[Path]:
    """A name to write to, which becomes path when all went well and is removed otherwise.

    Raises:
        EncodeError: path exists and force is false.
    """
    if path.exists() and not force:
        raise EncodeError(f"{path} exists already", file=str(path))
    remove_lost_parts(path)
    part = path.with_name(f".{path.name}.sparseframes-{os.getpid()}.part")
    try:
        # a folder that is missing or closed shows here, in plain words
        with part.open("xb"):
            pass
    except OSError as error:
        raise EncodeError(f"{path}: {error.strerror}", file=str(path)) from error
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def remove_lost_parts(path: Path) -> None:
    """Remove what processes left that were killed while they wrote path."""
    for part in path.parent.glob(f".{path.name.replace('[', '[[]')}.sparseframes-*.part"):
        match = LOST_PART.fullmatch(part.name)
        if match and match["name"] == path.name and not _lives(int(match["pid"])):
            part.unlink(missing_ok=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
