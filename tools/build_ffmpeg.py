#!/usr/bin/env python3
"""Build the patched, static FFmpeg that libsparse links.

The result goes to ``$XDG_CACHE_HOME/sparseframes/ffmpeg/<key>``, where the key is a hash of all
that decides what is built, so a second call finds it in no time. The last line on stdout is that
folder. With ``--dev`` a source tree that is being worked on is built incrementally instead.

AV1 is decoded by dav1d, an unpatched release built the same way into
``$XDG_CACHE_HOME/sparseframes/dav1d/<key>`` and put beside FFmpeg's libraries.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from fetch_source import SOURCES, FetchError, cache_dir, fetch, note

ROOT = Path(__file__).resolve().parent.parent
SERIES = ROOT / "ffmpeg-patches" / "ffmpeg"
SOURCE = SOURCES["ffmpeg"]
DAV1D = SOURCES["dav1d"]

# Headers of the patched tree that upstream does not install and libsparse includes.
PRIVATE_HEADERS = ("libavcodec/sparsedec.h", "libavformat/sparse_mov.h")

# The tree is installed under DESTDIR, so that no path of this machine gets into the libraries.
NOMINAL_PREFIX = "/sparse-ffmpeg"

COMPONENTS = {
    "decoder": "h264 hevc libdav1d mpeg4 mpeg2video mpeg1video h263 flv vp8 vp9 mjpeg ffv1 prores "
    "png rawvideo",
    "parser": "h264 hevc av1 mpeg4video mpegvideo h263 vp8 vp9 mjpeg png aac",
    "demuxer": "mov matroska mpegts mpegps avi flv ivf obu av1 h264 hevc m4v mpegvideo mjpeg "
    "image_png_pipe image_jpeg_pipe",
    "bsf": "extract_extradata h264_mp4toannexb hevc_mp4toannexb vp9_superframe_split "
    "av1_frame_merge av1_frame_split",
    "protocol": "file",
}

OPTIONS = """
    --disable-everything --disable-autodetect --disable-programs --disable-doc
    --disable-avdevice --disable-avfilter --disable-postproc --disable-swresample
    --disable-network --disable-iconv
    --enable-avformat --enable-avcodec --enable-swscale --enable-zlib --enable-pthreads
    --enable-libdav1d --pkg-config-flags=--static
    --enable-runtime-cpudetect --enable-pic --enable-static --disable-shared --disable-stripping
"""

# dav1d hides all but its interface by itself; linking libsparse hides that, too.
DAV1D_OPTIONS = """
    --default-library=static --buildtype=release -Db_ndebug=true -Db_staticpic=true
    -Denable_tools=false -Denable_tests=false -Denable_examples=false -Denable_docs=false
    -Dlibdir=lib
"""

TOOLS = {
    "make": "make",
    "nasm": "nasm",
    "patch": "patch",
    "ar": "binutils",
    "pkg-config": "pkg-config",
}
DAV1D_TOOLS = {"meson": "meson", "ninja": "ninja-build"}


class BuildError(Exception):
    """FFmpeg can't be built."""


def compiler() -> list[str]:
    """The C compiler's command."""
    return shlex.split(os.environ.get("CC", "")) or ["cc"]


def output(*command: str) -> str:
    """What a command prints, empty if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def check_tools(*, dav1d: bool) -> None:
    """Raise, naming the packages to install, when a tool is missing."""
    tools = TOOLS | DAV1D_TOOLS if dav1d else TOOLS
    missing = {tool: package for tool, package in tools.items() if not shutil.which(tool)}
    if platform.machine() not in ("x86_64", "AMD64", "i686"):
        missing.pop("nasm", None)
    command = compiler()
    if not shutil.which(command[0]):
        missing[command[0]] = "gcc"
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        raise BuildError(
            f"FFmpeg's build needs {', '.join(sorted(missing))}. "
            f"On Debian and Ubuntu: apt-get install {packages}"
        )


def configure_options(*, sanitize: bool, debug: bool) -> list[str]:
    """The arguments of FFmpeg's configure."""
    options = [f"--prefix={NOMINAL_PREFIX}", f"--cc={shlex.join(compiler())}", *OPTIONS.split()]
    for kind, names in COMPONENTS.items():
        options += [f"--enable-{kind}={name}" for name in names.split()]
    flags = ["-fvisibility=hidden"]
    if sanitize:
        flags += ["-fsanitize=address,undefined", "-fno-omit-frame-pointer"]
        options += ["--optflags=-O1", "--extra-ldflags=-fsanitize=address,undefined"]
    if not (sanitize or debug):
        options += ["--disable-debug"]
    options += [f"--extra-cflags={' '.join(flags)}"]
    return options


def series(folder: Path = SERIES) -> list[Path]:
    """The patches, in the order in which they apply."""
    order = folder / "series"
    if not order.is_file():
        return []
    lines = (line.split("#", 1)[0].strip() for line in order.read_text("utf-8").splitlines())
    patches = [folder / line for line in lines if line]
    for patch in patches:
        if not patch.is_file():
            raise BuildError(f"{order} names {patch.name}, which does not exist")
    return patches


def build_key(options: list[str]) -> str:
    """A hash of all that decides what is built."""
    patches = [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in series()]
    parts = {
        "source": [SOURCE.version, SOURCE.sha256],
        "dav1d": [DAV1D.version, DAV1D.sha256],
        "patches": patches,
        "options": options,
        "headers": PRIVATE_HEADERS,
        **machine(),
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return f"{SOURCE.version}-{digest[:20]}"


def machine() -> dict[str, object]:
    """What of the machine decides what is built."""
    command = compiler()
    return {
        "compiler": [
            output(*command, "--version").partition("\n")[0],
            output(*command, "-dumpfullversion"),
            output(*command, "-dumpmachine"),
        ],
        "flags": [os.environ.get(name, "") for name in ("CFLAGS", "LDFLAGS")],
        "nasm": output("nasm", "--version"),
    }


def run(command: list[str], cwd: Path, log: Path, env: dict[str, str] | None = None) -> None:
    """Run a command, its output going to the log; show the log's end when it fails."""
    with log.open("ab") as file:
        file.write(f"$ {shlex.join(command)}\n".encode())
        file.flush()
        done = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        tail = log.read_text("utf-8", errors="replace").splitlines()[-40:]
        raise BuildError(
            "\n".join(tail) + f"\n{shlex.join(command)[:100]} failed; the whole log is {log}"
        )


def build_environment() -> dict[str, str]:
    """The environment for configure and make: no make of ours may leak its job server."""
    env = {**os.environ, "LC_ALL": "C"}
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "DESTDIR"):
        env.pop(name, None)
    return env


def jobs() -> int:
    """How many compilers to run at once."""
    wanted = os.environ.get("SPARSE_JOBS", "")
    return int(wanted) if wanted.isdigit() and int(wanted) else len(os.sched_getaffinity(0))


def extract(archive: Path, folder: Path) -> Path:
    """Unpack the source; return its top folder."""
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(folder, filter="data")
        else:  # Python without PEP 706; the archive's hash is checked
            tar.extractall(folder)
    (top,) = (path for path in folder.iterdir() if path.is_dir())
    return top


def apply_patches(tree: Path, patches: list[Path], *, allow_offset: bool = True) -> None:
    """Apply the series without fuzz, and if asked without offsets too."""
    for patch in patches:
        command = ["patch", "-p1", "--fuzz=0", "--forward", "--no-backup-if-mismatch"]
        with patch.open("rb") as file:
            done = subprocess.run(
                command,
                cwd=tree,
                env={**os.environ, "LC_ALL": "C"},
                stdin=file,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        moved = [line for line in done.stdout.splitlines() if "(offset" in line]
        if done.returncode != 0 or (moved and not allow_offset):
            raise BuildError(
                f"{patch.name} does not apply to {tree.name}:\n{done.stdout}{done.stderr}"
            )


def configure(source: Path, build: Path, options: list[str], dav1d: Path, log: Path) -> None:
    """Run FFmpeg's configure, with dav1d where it finds it and no other library."""
    env = {**build_environment(), "PKG_CONFIG_LIBDIR": str(dav1d / "lib/pkgconfig")}
    env.pop("PKG_CONFIG_PATH", None)
    run([str(source / "configure"), *options], build, log, env)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, waiting for whoever holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(f"waiting for another build of the same ({path})")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def built_once(
    prefix: Path,
    what: str,
    archive: Callable[[], Path],
    recipe: Callable[[Path, Path, Path], None],
) -> Path:
    """A folder that is made if it isn't there, by one process at a time, and is then whole.

    Args:
        prefix: the folder.
        what: its name in messages.
        archive: gets the archive of the source.
        recipe: called with the source's folder, the folder to fill, and the log to write to.
    """
    home = prefix.parent
    if prefix.is_dir():
        return prefix
    with locked(home / f"{prefix.name}.lock"):
        if prefix.is_dir():
            return prefix
        source = archive()
        log = home / f"{prefix.name}.log"
        log.unlink(missing_ok=True)
        note(f"building {what} (log: {log})")
        work = home / f"{prefix.name}.build"  # the lock makes it ours, and a killed build's too
        shutil.rmtree(work, ignore_errors=True)
        try:
            tree = extract(source, work)
            made = work / "made"
            made.mkdir()
            recipe(tree, made, log)
            made.replace(prefix)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return prefix


def build_dav1d(*, sanitize: bool, debug: bool, named: Path | None = None) -> Path:
    """Build dav1d as a static library, or find it built; return where it is installed."""
    options = DAV1D_OPTIONS.split()
    if sanitize:
        options += ["-Db_sanitize=address,undefined", "-Db_lundef=false"]
    if sanitize or debug:
        options += ["-Ddebug=true"]
    parts = {"source": [DAV1D.version, DAV1D.sha256], "options": options, **machine()}
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    prefix = cache_dir() / "dav1d" / f"{DAV1D.version}-{digest[:20]}"

    def recipe(tree: Path, made: Path, log: Path) -> None:
        work = made.parent
        build = work / "build"
        env = {**build_environment(), "CC": shlex.join(compiler())}
        setup = ["meson", "setup", *options, f"--prefix={made}", str(build), str(tree)]
        run(setup, work, log, env)
        run(["meson", "compile", "-C", str(build), f"-j{jobs()}"], work, log, env)
        run(["meson", "install", "-C", str(build), "--no-rebuild"], work, log, env)
        pc = made / "lib/pkgconfig/dav1d.pc"
        text = re.sub(r"(?m)^prefix=.*$", "prefix=${pcfiledir}/../..", pc.read_text("utf-8"))
        pc.write_text(text, "utf-8")
        shutil.copy2(tree / "COPYING", made / "COPYING")

    return built_once(prefix, f"dav1d {DAV1D.version}", lambda: fetch(DAV1D, named), recipe)


def make_install(source: Path, build: Path, prefix: Path, dav1d: Path, log: Path) -> None:
    """Compile and install the libraries and their headers into prefix, dav1d's among them."""
    env = build_environment()
    run(["make", f"-j{jobs()}"], build, log, env)
    with tempfile.TemporaryDirectory(prefix="stage-", dir=build) as temporary:
        stage = Path(temporary)
        run(["make", "install-libs", "install-headers", f"DESTDIR={stage}"], build, log, env)
        staged = stage / NOMINAL_PREFIX.lstrip("/")
        for header in PRIVATE_HEADERS:
            if (source / header).is_file():
                shutil.copy2(source / header, staged / "include" / header)
        shutil.copy2(dav1d / "lib/libdav1d.a", staged / "lib/libdav1d.a")
        for pc in (staged / "lib/pkgconfig").glob("*.pc"):
            pc.write_text(pc.read_text("utf-8").replace(NOMINAL_PREFIX, "${pcfiledir}/../.."))
        # files that did not change keep their time stamp, for what depends on them
        for path in sorted(staged.rglob("*")):
            target = prefix / path.relative_to(staged)
            if path.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            elif not target.is_file() or target.read_bytes() != path.read_bytes():
                path.replace(target)


def build_release(options: list[str], dav1d: Callable[[], Path], named: Path | None) -> Path:
    """Build the pinned source with the series applied, or find it built."""
    patches = series()

    def recipe(tree: Path, made: Path, log: Path) -> None:
        apply_patches(tree, patches)
        build = made.parent / "build"
        build.mkdir()
        library = dav1d()
        configure(tree, build, options, library, log)
        make_install(tree, build, made, library, log)

    what = f"FFmpeg {SOURCE.version} with {len(patches)} patches"
    prefix = cache_dir() / "ffmpeg" / build_key(options)
    return built_once(prefix, what, lambda: fetch(SOURCE, named), recipe)


def build_dev(options: list[str], dav1d: Path, source: Path, prefix: Path | None) -> Path:
    """Build a source tree in a folder of its own, again only what changed."""
    source = source.resolve()
    script = source / "configure"
    if not script.is_file():
        raise BuildError(f"{source} is not an FFmpeg source tree")
    stamp = json.dumps(
        {"options": options, "configure": hashlib.sha256(script.read_bytes()).hexdigest()}
    )
    name = hashlib.sha256(json.dumps([str(source), options]).encode()).hexdigest()[:20]
    home = cache_dir() / "ffmpeg-dev" / name
    prefix = prefix.resolve() if prefix else home / "prefix"
    build, log, configured = home / "build", home / "log", home / "configured"
    with locked(home / "lock"):
        log.unlink(missing_ok=True)
        if not configured.is_file() or configured.read_text("utf-8") != stamp:
            configured.unlink(missing_ok=True)
            shutil.rmtree(build, ignore_errors=True)
            build.mkdir(parents=True)
            note(f"configuring {source} (log: {log})")
            configure(source, build, options, dav1d, log)
            configured.write_text(stamp, "utf-8")
        note(f"building {source} (log: {log})")
        prefix.mkdir(parents=True, exist_ok=True)
        make_install(source, build, prefix, dav1d, log)
    return prefix


def main() -> int:
    """Build FFmpeg and print where it is."""
    parser = argparse.ArgumentParser(description="Build the FFmpeg that libsparse links.")
    parser.add_argument("--source", type=Path, help="FFmpeg's archive, or the folder that has it")
    parser.add_argument(
        "--dev", type=Path, metavar="DIR", help="build this patched source tree, incrementally"
    )
    parser.add_argument("--prefix", type=Path, help="where --dev installs")
    parser.add_argument("--sanitize", action="store_true", help="with AddressSanitizer and UBSan")
    parser.add_argument("--debug", action="store_true", help="with debugging information")
    parser.add_argument("--print-key", action="store_true", help="print the key, build nothing")
    arguments = parser.parse_args()
    if arguments.prefix and not arguments.dev:
        parser.error("--prefix goes with --dev")
    options = configure_options(sanitize=arguments.sanitize, debug=arguments.debug)
    try:
        if arguments.print_key:
            print(build_key(options))
            return 0
        check_tools(dav1d=True)

        def dav1d() -> Path:
            return build_dav1d(sanitize=arguments.sanitize, debug=arguments.debug)

        if arguments.dev:
            prefix = build_dev(options, dav1d(), arguments.dev, arguments.prefix)
        else:
            prefix = build_release(options, dav1d, arguments.source)
    except (BuildError, FetchError) as error:
        note(f"build_ffmpeg: {error}")
        return 1
    print(prefix)
    return 0


if __name__ == "__main__":
    sys.exit(main())
