#!/usr/bin/env python3
"""Build the program that encodes: ffmpeg and ffprobe with patched x264 and x265 inside.

It is a GPL program in a place of its own, ``$XDG_CACHE_HOME/sparseframes/encoder/<key>``, and
nothing of it is ever linked into libsparse. The two encoders are built and kept apart from FFmpeg,
under keys of their own, so that a change to one part costs the build of that part and the program.
The last line on stdout is the program's folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import build_ffmpeg
from build_ffmpeg import (
    ROOT,
    BuildError,
    apply_patches,
    build_environment,
    built_once,
    compiler,
    jobs,
    output,
    run,
    series,
)
from fetch_source import SOURCES, FetchError, Source, cache_dir, fetch, note

PATCHES = ROOT / "ffmpeg-patches"
LATEST = "latest"  # names the folder of the last build, for those who look for the program

TOOLS = {"cmake": "cmake", "pkg-config": "pkg-config"}

X264_OPTIONS = """
    --enable-static --enable-pic --disable-cli --disable-opencl --disable-avs --disable-swscale
    --disable-lavf --disable-ffms --disable-gpac --disable-lsmash
"""

X265_OPTIONS = """
    -DCMAKE_BUILD_TYPE=Release -DENABLE_SHARED=OFF -DENABLE_CLI=OFF -DENABLE_LIBNUMA=OFF
    -DENABLE_PIC=ON
"""
X265_DEPTHS = {
    "ten": ("-DHIGH_BIT_DEPTH=ON", "-DEXPORT_C_API=OFF"),
    "eight": ("-DLINKED_10BIT=ON", "-DEXTRA_LIB=x265_main10.a"),  # one needs the other
}

FFMPEG_OPTIONS = """
    --enable-gpl --enable-libx264 --enable-libx265 --enable-static --disable-shared
    --disable-autodetect --disable-doc --disable-debug --disable-ffplay --disable-hwaccels
    --disable-avdevice --enable-zlib --enable-pthreads --enable-runtime-cpudetect
    --pkg-config-flags=--static
"""


# taken from the system if they are there: pkg-config's name, FFmpeg's, the package, the purpose
AV1 = (
    ("dav1d", "libdav1d", "libdav1d-dev", "decode"),
    ("SvtAv1Enc", "libsvtav1", "libsvtav1enc-dev", "encode"),
)
MARK = "version:"  # begins what is part of the key and no argument of configure


@dataclass(frozen=True)
class Part:
    """One thing that is built and kept under a key."""

    name: str
    source: Source
    folders: tuple[str, ...]  # of patches, in the order in which they apply
    options: tuple[str, ...]
    needs: tuple[Path, ...] = ()  # parts that it links

    def patches(self) -> list[Path]:
        """All patches, in order."""
        return [patch for folder in self.folders for patch in series(PATCHES / folder)]

    def key(self) -> str:
        """A hash of all that decides what is built."""
        command = compiler()
        parts = {
            "recipe": [1, X265_DEPTHS] if self.name == "x265" else 1,
            "source": [self.source.version, self.source.sha256],
            "patches": [
                (patch.name, hashlib.sha256(patch.read_bytes()).hexdigest())
                for patch in self.patches()
            ],
            "options": self.options,
            "needs": [path.name for path in self.needs],
            "compiler": [
                output(*command, "--version").partition("\n")[0],
                output(*command, "-dumpmachine"),
                output(*cxx(), "--version").partition("\n")[0],
            ],
            "flags": [os.environ.get(name, "") for name in ("CFLAGS", "CXXFLAGS", "LDFLAGS")],
            "nasm": output("nasm", "--version"),
        }
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        return f"{self.source.version.partition('+')[0]}-{digest[:20]}"


def cxx() -> list[str]:
    """The C++ compiler's command."""
    return shlex.split(os.environ.get("CXX", "")) or ["c++"]


def check_tools() -> None:
    """Raise, naming the packages to install, when a tool is missing."""
    build_ffmpeg.check_tools(dav1d=False)  # the system's is linked
    missing = {tool: package for tool, package in TOOLS.items() if not shutil.which(tool)}
    if not shutil.which(cxx()[0]):
        missing[cxx()[0]] = "g++"
    if missing:
        raise BuildError(
            f"the encoders' build needs {', '.join(sorted(missing))}. "
            f"On Debian and Ubuntu: apt-get install {' '.join(sorted(set(missing.values())))}"
        )


def build(part: Part, recipe: Callable[[Part, Path, Path, Path], None]) -> Path:
    """Build a part, or find it built; recipe(part, tree, made, log) fills the folder made."""
    patches = part.patches()

    def fill(tree: Path, made: Path, log: Path) -> None:
        apply_patches(tree, patches)
        recipe(part, tree, made, log)

    what = f"{part.name} {part.source.version}, {len(patches)} patches"
    prefix = cache_dir() / part.name / part.key()
    return built_once(prefix, what, lambda: fetch(part.source), fill)


def write_pc(made: Path, name: str, version: str, libs: str, private: str) -> None:
    """Describe a library to pkg-config, by paths relative to the description."""
    folder = made / "lib/pkgconfig"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.pc").write_text(
        f"prefix=${{pcfiledir}}/../..\nName: {name}\nDescription: {name}, patched\n"
        f"Version: {version}\nLibs: -L${{prefix}}/lib {libs}\nLibs.private: {private}\n"
        f"Cflags: -I${{prefix}}/include\n",
        "utf-8",
    )


def build_x264(part: Part, tree: Path, made: Path, log: Path) -> None:
    """The static library for 8 and 10 bits a sample."""
    env = build_environment() | {"CC": shlex.join(compiler())}
    (tree / "configure").chmod(0o755)
    (tree / "version.sh").chmod(0o755)
    run(["./configure", "--prefix=/x264", *part.options], tree, log, env)
    run(["make", f"-j{jobs()}", "lib-static"], tree, log, env)
    (made / "include").mkdir()
    (made / "lib").mkdir()
    for header in ("x264.h", "x264_config.h"):
        shutil.copy2(tree / header, made / "include" / header)
    shutil.copy2(tree / "libx264.a", made / "lib/libx264.a")
    write_pc(made, "x264", "0.164.3108", "-lx264", "-lpthread -lm -ldl")


def build_x265(part: Part, tree: Path, made: Path, log: Path) -> None:
    """The static libraries for 8 and 10 bits a sample, which the first one offers."""
    env = build_environment() | {"CC": shlex.join(compiler()), "CXX": shlex.join(cxx())}
    source = tree / "source"
    ten, eight = tree / "ten", tree / "eight"
    (made / "include").mkdir()
    (made / "lib").mkdir()
    for folder in (ten, eight):
        extra = X265_DEPTHS[folder.name]
        folder.mkdir()
        run(["cmake", str(source), *part.options, *extra], folder, log, env)
        run(["make", f"-j{jobs()}", "x265-static"], folder, log, env)
    shutil.copy2(eight / "libx265.a", made / "lib/libx265.a")
    shutil.copy2(ten / "libx265.a", made / "lib/libx265_main10.a")
    shutil.copy2(source / "x265.h", made / "include/x265.h")
    shutil.copy2(eight / "x265_config.h", made / "include/x265_config.h")
    write_pc(
        made, "x265", part.source.version, "-lx265 -lx265_main10", "-lstdc++ -lm -lpthread -ldl"
    )


def build_program(part: Part, tree: Path, made: Path, log: Path) -> None:
    """The programs ffmpeg and ffprobe."""
    env = build_environment()
    folders = [str(path / "lib/pkgconfig") for path in part.needs]
    env["PKG_CONFIG_PATH"] = os.pathsep.join([*folders, env.get("PKG_CONFIG_PATH", "")])
    folder = tree / "build"
    folder.mkdir()
    run([str(tree / "configure"), *part.options], folder, log, env)
    run(["make", f"-j{jobs()}", "ffmpeg", "ffprobe"], folder, log, env)
    (made / "bin").mkdir()
    for program in ("ffmpeg", "ffprobe"):
        shutil.copy2(folder / program, made / "bin" / program)
        run(["strip", str(made / "bin" / program)], folder, log, env)
    for name in ("COPYING.GPLv2", "COPYING.GPLv3"):
        shutil.copy2(tree / name, made / name)


def parts() -> tuple[Part, Part]:
    """The two encoders."""
    return (
        Part("x264", SOURCES["x264"], ("x264",), tuple(X264_OPTIONS.split())),
        Part("x265", SOURCES["x265"], ("x265",), tuple(X265_OPTIONS.split())),
    )


def program_part(needs: tuple[Path, ...]) -> Part:
    """The program that links these parts."""
    folders = ("ffmpeg", "ffmpeg-encoder")
    digest = hashlib.sha256()
    for folder in ("x264", "x265", *folders):
        for patch in series(PATCHES / folder):
            digest.update(patch.name.encode() + b"\0" + patch.read_bytes())
    options = [
        "--prefix=/sparseframes-encoder",
        f"--cc={shlex.join(compiler())}",
        f"--cxx={shlex.join(cxx())}",
        *FFMPEG_OPTIONS.split(),
        f"--extra-version=sparseframes-encoder-series-{digest.hexdigest()[:8]}",
    ]
    versions = []
    for library, option, package, purpose in AV1:
        version = output("pkg-config", "--modversion", library)
        if version:
            options.append(f"--enable-{option}")
            versions.append(f"{MARK}{library}={version}")
        else:
            note(f"{package} is not installed: the program can't {purpose} AV1")
    if platform.machine() not in ("x86_64", "AMD64", "i686"):
        options.append("--disable-x86asm")
    return Part("encoder", SOURCES["ffmpeg"], folders, (*options, *versions), needs)


def build_all() -> Path:
    """Build what is missing; the folder of the program."""
    x264, x265 = parts()
    needs = (build(x264, build_x264), build(x265, build_x265))
    part = program_part(needs)

    def recipe(_: Part, tree: Path, made: Path, log: Path) -> None:
        options = tuple(option for option in part.options if not option.startswith(MARK))
        build_program(Part(part.name, part.source, part.folders, options, needs), tree, made, log)

    prefix = build(part, recipe)
    # what the Python package looks for
    link = prefix.parent / LATEST
    fresh = prefix.parent / f".{LATEST}-{os.getpid()}"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(prefix.name)
    fresh.replace(link)
    return prefix


def main() -> int:
    """Build the program and print where it is."""
    parser = argparse.ArgumentParser(description="Build the ffmpeg program that encodes.")
    parser.add_argument("--version", action="store_true", help="print what the program says it is")
    arguments = parser.parse_args()
    try:
        check_tools()
        prefix = build_all()
    except (BuildError, FetchError) as error:
        note(f"build_encoder: {error}")
        return 1
    if arguments.version:
        subprocess.run([prefix / "bin/ffmpeg", "-version"], check=True)
    print(prefix)
    return 0


if __name__ == "__main__":
    sys.exit(main())
