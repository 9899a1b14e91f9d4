#!/usr/bin/env python3
"""Make a virtual environment of its own for tests that need large packages, and run them in it.

Usage: extra_env.py torch|lerobot [ARGUMENT...], with arguments for pytest. The environments lie in
the cache, ~/.cache/sparseframes/environments, and are kept. The package itself is built from the
tree each time, with the tools of the environment this runs in.

``torch`` holds torch and torchcodec, ``lerobot`` the newest LeRobot that installs in the first of
several Pythons that is at hand. LeRobot brings a torch of its own: some 6 GB. Torchcodec gets the
FFmpeg of PyAV's wheel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyav_ffmpeg
from requirements import names

ROOT = Path(__file__).resolve().parent.parent

# the newer LeRobots need 3.12
PYTHONS = ("3.12", "3.13", "3.14", "3.11", "3.10")


@dataclass(frozen=True)
class Environment:
    """What an environment is made of, and which tests it is for."""

    requirements: tuple[str, ...]
    tests: tuple[str, ...]
    own_python: bool = False


ENVIRONMENTS = {
    "torch": Environment(
        # torchcodec is built for one torch, and this one doesn't need CUDA's libraries
        ("torch==2.13.0", "torchcodec==0.13.0", "fsspec"),
        ("tests/test_torch.py", "tests/test_lerobot.py", "tests/test_lerobot_torch.py"),
    ),
    "lerobot": Environment(
        ("lerobot[dataset]",),
        ("tests/test_lerobot_real.py",),
        own_python=True,
    ),
}


def cache() -> Path:
    """The folder of the environments."""
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base or Path.home() / ".cache") / "sparseframes" / "environments"


def find_python() -> str:
    """The first Python of `PYTHONS` that is at hand, else the one that runs this."""
    for version in PYTHONS:
        found = [shutil.which(f"python{version}")]
        found += sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))
        for candidate in filter(None, found):
            # a name may stand for a version that isn't chosen
            call = [candidate, "-c", "import ensurepip, venv"]
            if subprocess.run(call, capture_output=True, check=False).returncode == 0:
                return candidate
    return sys.executable


def run(*command: str | Path) -> None:
    """Run a command, which has to succeed."""
    # the build's tools lie beside this Python
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT, env=environment)


def prepare(name: str) -> Path:
    """Make the environment, or bring it up to date; the path of its Python."""
    wanted = ENVIRONMENTS[name]
    folder = cache() / name
    python = folder / "bin" / "python"
    requirements = [*wanted.requirements, *names("cli", "lerobot", "test")]
    stamp = folder / "requirements.txt"
    text = "\n".join(requirements) + "\n"
    if not stamp.exists() or stamp.read_text() != text:
        base = find_python() if wanted.own_python else sys.executable
        print(f"extra_env: making {folder} with {base}", flush=True)
        run(base, "-m", "venv", "--clear", folder)
        run(python, "-m", "pip", "install", "--quiet", *requirements)
        stamp.write_text(text)
    with tempfile.TemporaryDirectory() as wheels:
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        run(
            *pip, "wheel", "--no-build-isolation", "--no-deps", "-Cbuild-dir=build-wheel",
            "--wheel-dir", wheels, ".",
        )  # fmt: skip
        (wheel,) = Path(wheels).glob("*.whl")
        run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", wheel)
    return python


def main() -> None:
    """Prepare and test."""
    if len(sys.argv) < 2 or sys.argv[1] not in ENVIRONMENTS:
        raise SystemExit(f"usage: extra_env.py {'|'.join(ENVIRONMENTS)} [ARGUMENT...]")
    name, arguments = sys.argv[1], sys.argv[2:]
    try:
        python = prepare(name)
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"extra_env: {error}") from None
    packages = [part.split("[")[0].split("=")[0] for part in ENVIRONMENTS[name].requirements]
    versions = "; ".join(f"print({p!r}, version({p!r}))" for p in packages)
    run(python, "-c", f"from importlib.metadata import version; {versions}")
    command = [python, "-m", "pytest", *(arguments or ENVIRONMENTS[name].tests)]
    folder = cache() / name
    (site,) = folder.glob("lib/python3*/site-packages")
    libraries = pyav_ffmpeg.link(site, folder / "ffmpeg")
    os.chdir(ROOT)
    os.execve(python, [str(part) for part in command], {**os.environ, "LD_LIBRARY_PATH": libraries})


if __name__ == "__main__":
    main()
