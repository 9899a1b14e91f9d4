"""A data set encoded again so that any frame costs at most three pictures."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sparseframes.encode import EncodeError, Settings, TranscodeResult, find_program, transcode
from sparseframes.encode._jobs import side_by_side
from sparseframes.errors import ArgumentError
from sparseframes.lerobot._info import described, fresh_info
from sparseframes.lerobot._layout import INFO, VIDEO_PATH, Layout
from sparseframes.lerobot._verify import same_times

STATE = "sparseframes-convert.json"
# records of downloads and versions, which don't hold for other files
LEFT_OUT = {".cache", ".git"}


@dataclass(frozen=True)
class ConvertResult:
    """What a conversion did.

    Attributes:
        root, dest: the data sets.
        videos: what became of each file that was encoded in this run.
        resumed: videos that an earlier run had finished.
        copied: files taken over as they are, videos of depth among them.
        bytes_before, bytes_after: sizes of all videos that were encoded, in this run and before.
        seconds: how long it took.
    """

    root: str
    dest: str
    videos: list[TranscodeResult]
    resumed: int
    copied: int
    bytes_before: int
    bytes_after: int
    seconds: float


def convert(
    root: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    *,
    codec: str = "hevc",
    period: int = 32,
    profile: str = "balanced",
    crf: float | None = None,
    preset: str | None = None,
    tune: str | None = None,
    idr: int = 0,
    threads: int | None = None,
    jobs: int = 1,
    resume: bool = False,
    restart: bool = False,
    progress: Callable[[float, str], object] | None = None,
) -> ConvertResult:
    """Encode all videos of a data set again, so that any frame costs at most three pictures.

    The new data set has the frames of the old one at the same times, the ``video.*`` fields of its
    meta/info.json describe the new files, and all else is a copy. It is there whole or not at all:
    it grows in a hidden folder beside dest, which stays after a failure for a run with resume.
    Videos of depth are copied: the encoders don't have 12 bits a sample.

    Args:
        root: the data set, in the v3 layout; it stays as it is.
        dest: the folder to make.
        codec, period, profile, crf, preset, tune, idr, threads: as of `sparseframes.transcode`.
        jobs: videos to encode at once.
        resume: go on after an earlier run with the same settings.
        restart: drop what an earlier run left.
        progress: called now and then with the share done, 0 to 1, and what is being done; what it
            raises stops the work.

    Raises:
        DatasetError: root is no data set in the v3 layout.
        EncodeError: a video can't be encoded or comes out with other times, or dest is in the way.
        ProgramNotFoundError: the encoder program is not built.
        ArgumentError: a setting is not allowed.
    """
    begun = time.monotonic()
    settings = Settings(
        codec=codec,
        period=period,
        profile=profile,
        crf=crf,
        preset=preset,
        tune=tune,
        idr=idr,
        threads=threads,
    )
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise ArgumentError(f"jobs must be an integer from 1, not {jobs!r}")
    if resume and restart:
        raise ArgumentError("resume and restart contradict each other")
    find_program()
    layout = Layout(os.fspath(root))
    source, target = layout.root.resolve(), Path(dest).absolute()
    if target.resolve() == source or source in target.resolve().parents:
        raise EncodeError(f"{dest}: a data set can't be converted into itself", file=str(dest))
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise EncodeError(f"{dest} exists already", file=str(dest))
    videos = video_files(layout)
    encoded = [path for key, paths in videos.items() for path in paths if not _kept(layout, key)]

    work = target.with_name(f".{target.name}.sparseframes-part")
    _begin(work, source, settings, resume=resume, restart=restart)
    todo = [path for path in encoded if not (work / path).exists()]
    report = progress or (lambda share, title: None)
    results = _encode_all(source, work, todo, settings, jobs, report)
    report(1.0, "copying")
    copied = _copy_rest(source, work, {*encoded, INFO})
    _write_info(layout, work, videos, settings)
    before = sum((source / path).stat().st_size for path in encoded)
    after = sum((work / path).stat().st_size for path in encoded)
    (work / STATE).unlink()
    if target.exists():
        target.rmdir()
    work.rename(target)
    return ConvertResult(
        root=str(layout.root),
        dest=str(dest),
        videos=[
            replace(result, source=str(layout.root / path), target=str(Path(dest) / path))
            for path, result in results.items()
        ],
        resumed=len(encoded) - len(todo),
        copied=copied,
        bytes_before=before,
        bytes_after=after,
        seconds=time.monotonic() - begun,
    )


class _Any:
    """Stands for any number in a pattern of file names."""

    def __format__(self, _: str) -> str:
        return "*"


def video_files(layout: Layout) -> dict[str, list[Path]]:
    """The video files of each camera, relative to the root."""
    pattern = layout.info.get("video_path") or VIDEO_PATH
    files = {}
    for key in layout.cameras:
        name = pattern.format(
            video_key=glob.escape(key), chunk_index=_Any(), file_index=_Any(), episode_index=_Any()
        )
        found = sorted(path.relative_to(layout.root) for path in layout.root.glob(name))
        if not found:
            raise EncodeError(f"{layout.root / name}: there are no such videos")
        files[key] = found
    return files


def _kept(layout: Layout, key: str) -> bool:
    # 12 bits a sample, and losses would be depths that nobody measured
    return key in layout.depth_cameras


def _begin(work: Path, source: Path, settings: Settings, *, resume: bool, restart: bool) -> None:
    """Make the folder to work in, or find it as it was left."""
    wanted = {"source": str(source), "settings": asdict(settings)}
    if work.exists():
        if restart:
            shutil.rmtree(work)
        elif not resume:
            raise EncodeError(
                f"{work} was left by an earlier run: resume goes on with it, restart drops it",
                file=str(work),
            )
    if work.exists():
        try:
            known = json.loads((work / STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise EncodeError(
                f"{work / STATE}: {error}: it takes a restart", file=str(work)
            ) from None
        if known != json.loads(json.dumps(wanted)):
            raise EncodeError(
                f"{work} was left by a run with other settings: it takes these, or a restart",
                file=str(work),
            )
        return
    try:
        work.mkdir(parents=True)
        _write_text(work / STATE, json.dumps(wanted, indent=1))
    except OSError as error:
        raise EncodeError(f"{work}: {error.strerror}", file=str(work)) from None


def _encode_all(
    source: Path,
    work: Path,
    todo: list[Path],
    settings: Settings,
    jobs: int,
    report: Callable[[float, str], object],
) -> dict[Path, TranscodeResult]:
    """Encode several videos at once; an exception stops them all.

    A video that fails doesn't keep the others from being finished.
    """
    results: dict[Path, TranscodeResult] = {}
    failures: list[tuple[Path, Exception]] = []

    def encode(path: Path, progress: Callable[[float], None]) -> TranscodeResult:
        return _encode(source / path, work / path, settings, progress)

    sizes = {path: (source / path).stat().st_size for path in todo}
    with contextlib.closing(side_by_side(sizes, encode, jobs, report)) as outcomes:
        for path, outcome in outcomes:
            if isinstance(outcome, Exception):
                failures.append((path, outcome))
            else:
                results[path] = outcome
    if failures:
        path, first = failures[0]
        more = f" ({len(failures)} of {len(todo)} videos failed)" if len(failures) > 1 else ""
        raise EncodeError(f"{first}{more}", file=str(source / path)) from first
    return {path: results[path] for path in todo}


def _encode(
    source: Path, target: Path, settings: Settings, progress: Callable[[float], object]
) -> TranscodeResult:
    """Encode one video; it gets its name after its frames' times were found to be the source's."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with _named_when_whole(target, f".{target.stem}.unverified.mp4") as trial:
        result = transcode(
            source,
            trial,
            settings.codec,
            settings.period,
            settings.crf,
            settings.preset,
            settings.threads,
            profile=settings.profile,
            tune=settings.tune,
            idr=settings.idr,
            force=True,
            progress=progress,
        )
        same_times(source, trial)
    return result


def _copy_rest(source: Path, work: Path, done: set[Path]) -> int:
    """Copy all other files; the number of them."""
    count = 0
    for path in _files(source):
        if path in done:
            continue
        count += 1
        target = work / path
        if target.exists() and target.stat().st_size == (source / path).stat().st_size:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with _named_when_whole(target, f".{target.name}.part") as part:
            shutil.copy2(source / path, part)
    return count


def _files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        for name in sorted(names):
            yield (Path(folder) / name).relative_to(root)


def _write_info(
    layout: Layout, work: Path, videos: dict[str, list[Path]], settings: Settings
) -> None:
    files = {key: work / paths[0] for key, paths in videos.items() if not _kept(layout, key)}
    facts = {key: described(file, settings) for key, file in files.items()}
    (work / INFO).parent.mkdir(parents=True, exist_ok=True)
    _write_text(work / INFO, json.dumps(fresh_info(layout.info, facts), indent=4))


def _write_text(path: Path, text: str) -> None:
    with _named_when_whole(path, f".{path.name}.part") as part:
        part.write_text(text + "\n", encoding="utf-8")


@contextlib.contextmanager
def _named_when_whole(target: Path, name: str) -> Iterator[Path]:
    """A file of another name in target's folder, which becomes target when all went well."""
    part = target.with_name(name)
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
