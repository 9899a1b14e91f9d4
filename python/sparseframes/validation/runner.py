"""Many files, one after the other or in several processes, with a journal to go on from."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import sparseframes
from sparseframes.validation.check import check_file
from sparseframes.validation.options import Options
from sparseframes.validation.results import FileResult

Progress = Callable[[float, str], object]
"""Called with the share done, 0 to 1, and the name of a file."""


class JournalError(Exception):
    """The journal can't be read or written, or is none."""


class Journal:
    """Results as they came, one JSON document a line: a run that was stopped goes on from them.

    A result counts for a file of the same name, size and time of change, the same options and the
    same version of the package. A last line that was cut off by the stop is ignored.

    Args:
        path: the file, made when the first result is added.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._known: dict[str, FileResult] = {}
        try:
            text = self._path.read_bytes() if self._path.exists() else b""
        except OSError as error:
            raise JournalError(f"{path}: {error}") from error
        # the next result is written over a line that was cut off
        self._end = text.rfind(b"\n") + 1
        for number, line in enumerate(text[: self._end].splitlines(), 1):
            try:
                entry = json.loads(line)
                self._known[entry["key"]] = FileResult.from_json(entry["result"])
            except (ValueError, KeyError, TypeError) as error:
                raise JournalError(f"{path}: line {number} is no result of a validation") from error

    @staticmethod
    def key(file: str, options: Options) -> str:
        """What a result is kept under."""
        try:
            status = Path(file).stat()
            identity = [str(Path(file).resolve()), status.st_size, status.st_mtime_ns]
        except OSError:
            identity = [file]
        facts = [identity, options.to_json(), sparseframes.__version__]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]

    def find(self, file: str, options: Options) -> FileResult | None:
        """The result of an earlier run, if there is one."""
        return self._known.get(self.key(file, options))

    def add(self, options: Options, result: FileResult) -> None:
        """Note a result; it is on the disk afterwards."""
        entry = {"key": self.key(result.file, options), "result": result.to_json()}
        line = json.dumps(entry).encode() + b"\n"
        try:
            with self._path.open("r+b" if self._path.exists() else "xb") as file:
                file.seek(self._end)
                file.truncate()
                file.write(line)
        except OSError as error:
            raise JournalError(f"{self._path}: {error}") from error
        self._end += len(line)


def run_files(
    files: Sequence[str],
    options: Sequence[Options],
    *,
    jobs: int = 1,
    journal: Journal | None = None,
    progress: Progress | None = None,
) -> Iterator[FileResult]:
    """Check files; yields results as they come. A process that dies costs its own file only.

    Args:
        files: the files, each once.
        options: of each file.
        jobs: processes; with 1 all is done in this one.
        journal: results in it are not made again, and new ones go into it.
        progress: told of what is done.
    """
    tell = progress or (lambda share, name: None)
    work: list[tuple[str, Options]] = []
    for file, wanted in zip(files, options, strict=True):
        known = journal.find(file, wanted) if journal else None
        if known is None:
            work.append((file, wanted))
        else:
            yield known
    make = _in_processes if jobs > 1 else _here
    for used, result in make(work, jobs, len(files) - len(work), len(files), tell):
        if journal:
            journal.add(used, result)
        yield result


def _here(
    work: Sequence[tuple[str, Options]], _: int, before: int, total: int, tell: Progress
) -> Iterator[tuple[Options, FileResult]]:
    for done, (file, options) in enumerate(work, before):

        def share(part: float, done: int = done, file: str = file) -> None:
            tell((done + part) / total, Path(file).name)

        yield options, check_file(file, options, progress=share)
        share(1.0)


def _in_processes(
    work: Sequence[tuple[str, Options]], jobs: int, before: int, total: int, tell: Progress
) -> Iterator[tuple[Options, FileResult]]:
    done = before
    lost: list[tuple[str, Options]] = []
    with _pool(jobs) as pool:
        waiting = {pool.submit(check_file, *item): item for item in work}
        for future in as_completed(waiting):
            file, options = waiting[future]
            try:
                yield options, future.result()
            except BrokenProcessPool:
                lost.append((file, options))
                continue
            done += 1
            tell(done / total, Path(file).name)
    # whichever of those that were running killed its process, does so again, alone
    for file, options in lost:
        with _pool(1) as pool:
            try:
                yield options, pool.submit(check_file, file, options).result()
            except BrokenProcessPool:
                yield options, FileResult(file, status="failed", reason="the process died")
        done += 1
        tell(done / total, Path(file).name)


def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
