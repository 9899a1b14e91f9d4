"""The other loaders, each in an environment of its own, made here; a missing one has a reason."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tools import pyav_ffmpeg

CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "sparseframes-bench"

# Later releases of torchcodec want a CUDA build of torch, several GB of it.
TORCH = "torch==2.13.0"
PACKAGES: dict[str, tuple[tuple[str, ...], ...]] = {
    # each group is one call of pip: the first without the dependencies of what follows
    "common": (("numpy", "cffi", "av"),),
    "torch": ((TORCH,), ("--no-deps", "torchcodec==0.13.0")),
    "decord2": (("--no-deps", "decord2"),),
    "opencv": (("--no-deps", "opencv-python-headless"),),
    "video-reader-rs": (("--no-deps", "video-reader-rs"),),
    "jpeg": (("--no-deps", "simplejpeg"),),
}
# decord and decord2 are both imported as decord
OTHER_PACKAGES: dict[str, tuple[tuple[str, ...], ...]] = {
    "decord": (("numpy", "decord"),),
}

Say = Callable[[str], object]


class Peers:
    """The environments in a folder, or none but this process's own.

    Attributes:
        missing: what could not be installed, with the reason.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.missing: dict[str, str] = {}

    def install(self, say: Say = print) -> None:
        """Make the environments, unless they are there."""
        if self.folder is not None:
            self._environment("main", PACKAGES, say)
            self._environment("decord", OTHER_PACKAGES, say)
            self._link_package()

    def command(self, arm: str, module: str = "bench.worker") -> tuple[list[str], dict[str, str]]:
        """The command and the environment of a process for an arm."""
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("PYTHON")
        }
        root = str(Path(__file__).resolve().parent.parent)
        environment["PYTHONPATH"] = root
        if self.folder is None:
            return [sys.executable, "-m", module, arm], environment
        name = "decord" if arm == "decord" else "main"
        site = self._site("main")
        environment["PYTHONPATH"] = os.pathsep.join([root, str(self.folder / "package")])
        environment["OMP_NUM_THREADS"] = environment["OPENCV_FFMPEG_THREADS"] = "1"
        if arm.startswith("torchcodec"):
            # it takes what FFmpeg it finds: this one is newer than most systems', and was quicker
            # than Debian 12's
            environment["LD_LIBRARY_PATH"] = pyav_ffmpeg.link(site, self.folder / "ffmpeg")
        elif arm == "video-reader-rs":
            # some of its libraries don't find their own
            environment["LD_LIBRARY_PATH"] = str(site / "video_reader_rs.libs")
        return [str(self._python(name)), "-m", module, arm], environment

    def _python(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / name / "bin" / "python"

    def _site(self, name: str) -> Path:
        assert self.folder is not None
        found = sorted((self.folder / name / "lib").glob("python3*/site-packages"))
        return found[0] if found else self.folder / name

    def _environment(
        self, name: str, groups: dict[str, tuple[tuple[str, ...], ...]], say: Say
    ) -> None:
        assert self.folder is not None
        done = self.folder / name / "installed"
        done.parent.mkdir(parents=True, exist_ok=True)
        have = set(done.read_text().splitlines()) if done.exists() else set()
        if not self._python(name).exists():
            subprocess.run([sys.executable, "-m", "venv", str(self.folder / name)], check=True)
        for group, calls in groups.items():
            line = f"{group} {calls}"
            if line in have:
                continue
            say(f"installing {group}")
            reason = None
            for packages in calls:
                reason = reason or self._pip(name, packages)
            if reason:
                self.missing[group] = reason
            else:
                have.add(line)
                done.write_text("\n".join(sorted(have)) + "\n")

    def _pip(self, name: str, packages: tuple[str, ...]) -> str | None:
        """The reason why the packages can't be installed, or None."""
        result = subprocess.run(
            [
                *(str(self._python(name)), "-m", "pip", "install", "--quiet"),
                *("--disable-pip-version-check", *packages),
            ],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if result.returncode == 0:
            return None
        lines = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
        return (lines or result.stderr.splitlines() or ["pip failed"])[-1]

    def _link_package(self) -> None:
        """This project's package, which works in any Python from 3.10, where the peers see it."""
        assert self.folder is not None
        folder = self.folder / "package"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        distribution = importlib.metadata.distribution("sparseframes")
        for part in {Path(str(file)).parts[0] for file in distribution.files or ()}:
            if part.startswith("sparseframes"):
                _link(folder / part, Path(str(distribution.locate_file(part))))


def _link(link: Path, target: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target.resolve())
