#!/usr/bin/env python3
"""Get the source archives that the build patches and compiles.

Every archive is pinned by its SHA-256, so it makes no difference to the result where the bytes
come from. The origins are tried in this order:

1. what the user names: ``--source`` or the environment variable ``SPARSE_<NAME>_SOURCE``,
   an archive or a folder that holds it;
2. the download cache, ``$XDG_CACHE_HOME/sparseframes/downloads``;
3. Debian's source package, by apt, from the mirror this machine already uses;
4. the URLs of the table below.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Source:
    """One upstream release."""

    name: str
    version: str
    sha256: str  # of the archive; the only test of whether an archive is the right one
    urls: tuple[str, ...]
    debian_package: str
    debian_suite: str
    compression: str = "xz"

    @property
    def archive(self) -> str:
        """The archive's name in Debian's source package and in the download cache."""
        return f"{self.debian_package}_{self.version}.orig.tar.{self.compression}"

    @property
    def variable(self) -> str:
        """The environment variable with which a user names an archive."""
        return f"SPARSE_{self.name.upper()}_SOURCE"


SOURCES = {
    source.name: source
    for source in (
        Source(
            name="ffmpeg",
            version="7.1.5",
            # Debian's orig archive. Upstream's may be packed differently: it is accepted only if
            # it has this same hash.
            sha256="de668509caf9e35e3cd162473441fdb29538c6d96ed080292b3cf9e6fc5d558f",
            urls=(
                "http://deb.debian.org/debian/pool/main/f/ffmpeg/ffmpeg_7.1.5.orig.tar.xz",
                "https://ffmpeg.org/releases/ffmpeg-7.1.5.tar.xz",
            ),
            debian_package="ffmpeg",
            debian_suite="trixie",
        ),
        Source(
            name="x264",
            version="0.164.3108+git31e19f9",
            sha256="41606cb8e788a7f8c4514290646d4ba5c7bc68d9e1ccd1a73f446a90546913eb",
            urls=(
                "http://deb.debian.org/debian/pool/main/x/x264/"
                "x264_0.164.3108+git31e19f9.orig.tar.gz",
            ),
            debian_package="x264",
            debian_suite="trixie",
            compression="gz",
        ),
        Source(
            name="x265",
            version="4.1",
            sha256="85abb8a850000bf693947459c42a666a3ecd6de10a2ac6b3c6647554b14d3270",
            urls=("http://deb.debian.org/debian/pool/main/x/x265/x265_4.1.orig.tar.xz",),
            debian_package="x265",
            debian_suite="trixie",
        ),
        Source(
            name="dav1d",
            version="1.5.1",
            sha256="401813f1f89fa8fd4295805aa5284d9aed9bc7fc1fdbe554af4292f64cbabe21",
            urls=(
                "http://deb.debian.org/debian/pool/main/d/dav1d/dav1d_1.5.1.orig.tar.xz",
                "https://downloads.videolan.org/pub/videolan/dav1d/1.5.1/dav1d-1.5.1.tar.xz",
            ),
            debian_package="dav1d",
            debian_suite="trixie",
        ),
    )
}

DEBIAN_MIRROR = "http://deb.debian.org/debian"
DEBIAN_SECURITY_MIRROR = "http://deb.debian.org/debian-security"
DEBIAN_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
CHUNK = 1 << 20


class FetchError(Exception):
    """A source can't be had."""


def cache_dir() -> Path:
    """The folder for all that the build keeps outside the tree."""
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base if base else Path.home() / ".cache") / "sparseframes"


def note(message: str) -> None:
    """Tell the user something, leaving stdout to results."""
    print(message, file=sys.stderr, flush=True)


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def check(source: Source, path: Path) -> None:
    """Raise unless path is the pinned archive."""
    found = sha256(path)
    if found != source.sha256:
        raise FetchError(
            f"{path} is not the {source.name} {source.version} source this build is pinned to:\n"
            f"  expected SHA-256 {source.sha256}\n"
            f"  found    SHA-256 {found}"
        )


def from_user(source: Source, named: Path) -> Path:
    """The archive at a path that the user named."""
    if named.is_dir():
        candidates = [named / source.archive]
        candidates += [named / url.rsplit("/", 1)[1] for url in source.urls]
        for path in candidates:
            if path.is_file():
                check(source, path)
                return path
        names = ", ".join(dict.fromkeys(path.name for path in candidates))
        raise FetchError(f"{named} holds none of {names}")
    if not named.is_file():
        raise FetchError(f"{named}: no such file or folder")
    check(source, named)
    return named


# --- Debian's source package ---------------------------------------------------------------------


@dataclass(frozen=True)
class AptEntry:
    """One line or stanza of apt's source lists."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    signed_by: str  # as written, may be a key of several lines; empty for apt's default keys


def parse_one_line(text: str) -> Iterator[AptEntry]:
    """Entries of a file in the one-line form, ``deb [options] uri suite component...``."""
    for line in text.splitlines():
        match = re.match(r"\s*deb(?:-src)?\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)", line)
        if match:
            options = match[1] or ""
            signed = re.search(r"signed-by=(\S+)", options, re.IGNORECASE)
            keys = signed[1].replace(",", " ") if signed else ""
            yield AptEntry((match[2],), (match[3],), keys)


def parse_deb822(text: str) -> Iterator[AptEntry]:
    """Entries of a file in the deb822 form."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for stanza in re.split(r"\n\s*\n", "\n".join(lines)):
        fields: dict[str, str] = {}
        key = ""
        for line in stanza.splitlines():
            if line[:1] in (" ", "\t"):
                if key:
                    fields[key] += "\n" + line
            elif ":" in line:
                key, value = line.split(":", 1)
                key = key.strip().lower()
                fields[key] = value.strip()
        if fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        if "uris" in fields and "suites" in fields:
            yield AptEntry(
                tuple(fields["uris"].split()),
                tuple(fields["suites"].split()),
                fields.get("signed-by", ""),
            )


def apt_entries(etc: Path = Path("/etc/apt")) -> list[AptEntry]:
    """What apt is set up to use on this machine."""
    entries: list[AptEntry] = []
    for path in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if path.suffix == ".sources":
            entries += parse_deb822(text)
        elif path.suffix == ".list":
            entries += parse_one_line(text)
    return entries


def os_release() -> dict[str, str]:
    """The fields of /etc/os-release."""
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return {}
    return dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, re.MULTILINE))


def debian_mirrors(source: Source, entries: list[AptEntry]) -> list[AptEntry]:
    """Where to look for a suite of Debian: this machine's mirrors, else Debian's public one."""
    release = os_release()
    codename = release.get("VERSION_CODENAME", "")
    main, security = f"{source.debian_suite}", f"{source.debian_suite}-security"
    found: dict[str, AptEntry] = {}
    if release.get("ID") == "debian":
        for entry in entries:
            suites = set(entry.suites)
            if suites & {codename, "stable", "testing", "unstable", "sid"}:
                found.setdefault(main, AptEntry(entry.uris, (main,), entry.signed_by))
            elif suites & {f"{codename}-security", "stable-security"}:
                found.setdefault(security, AptEntry(entry.uris, (security,), entry.signed_by))
    if not found and DEBIAN_KEYRING.is_file():
        found[main] = AptEntry((DEBIAN_MIRROR,), (main,), str(DEBIAN_KEYRING))
        found[security] = AptEntry((DEBIAN_SECURITY_MIRROR,), (security,), str(DEBIAN_KEYRING))
    return list(found.values())


def source_version(source: Source, showsrc: str) -> str | None:
    """The Debian version, among the stanzas that apt-cache shows, made from the pinned archive."""
    for stanza in showsrc.split("\n\n"):
        version = re.search(r"^Version: (\S+)$", stanza, re.MULTILINE)
        if version and source.sha256 in stanza:
            return version[1]
    return None


def from_debian(source: Source, target: Path) -> None:
    """Download the archive with apt, in folders apart from those of the machine's own apt."""
    if not shutil.which("apt-get") or not shutil.which("apt-cache"):
        raise FetchError("apt is not installed")
    mirrors = debian_mirrors(source, apt_entries())
    if not mirrors:
        raise FetchError("no Debian mirror is set up and Debian's keyring is not installed")
    with tempfile.TemporaryDirectory(prefix="apt-", dir=target.parent) as temporary:
        root = Path(temporary)
        for name in ("sources.list.d", "lists/partial", "cache/archives/partial", "download"):
            (root / name).mkdir(parents=True)
        (root / "sources.list.d/debian.sources").write_text(
            "\n".join(
                f"Types: deb-src\nURIs: {' '.join(entry.uris)}\nSuites: {' '.join(entry.suites)}\n"
                "Components: main\n"
                + (f"Signed-By: {entry.signed_by}\n" if entry.signed_by else "")
                for entry in mirrors
            ),
            encoding="utf-8",
        )
        settings = {
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": f"{root}/sources.list.d",
            "Dir::State::lists": f"{root}/lists",
            "Dir::Cache": f"{root}/cache",
            "Acquire::Languages": "none",
            "Acquire::Retries": "2",
            "APT::Update::Error-Mode": "any",
            "Debug::NoLocking": "true",
        }
        if os.geteuid() == 0:
            # apt's own user can't enter a private cache folder
            settings["APT::Sandbox::User"] = "root"
        options = [item for pair in settings.items() for item in ("-o", "=".join(pair))]

        def apt(program: str, *arguments: str) -> str:
            command = [program, *options, *arguments]
            done = subprocess.run(
                command,
                cwd=root / "download",
                env={**os.environ, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
            if done.returncode != 0:
                lines = (done.stderr or done.stdout).strip().splitlines()
                raise FetchError(f"{program} {arguments[0]}: " + " / ".join(lines[-4:]))
            return done.stdout

        apt("apt-get", "--quiet", "update")
        version = source_version(source, apt("apt-cache", "showsrc", source.debian_package))
        if version is None:
            raise FetchError(
                f"{source.debian_suite} no longer has a {source.debian_package} made from "
                f"the {source.version} archive"
            )
        apt(
            "apt-get",
            "source",
            "--quiet",
            "--download-only",
            "--tar-only",
            f"{source.debian_package}={version}",
        )
        install(source, root / "download" / source.archive, target)


# --- plain downloads -----------------------------------------------------------------------------


def from_url(source: Source, url: str, target: Path) -> None:
    """Download the archive from a URL."""
    with tempfile.TemporaryDirectory(prefix="url-", dir=target.parent) as temporary:
        path = Path(temporary) / source.archive
        try:
            with urllib.request.urlopen(url, timeout=60) as reply, path.open("wb") as file:
                shutil.copyfileobj(reply, file, CHUNK)
        except (OSError, ValueError) as error:
            raise FetchError(str(error)) from error
        install(source, path, target)


def install(source: Source, path: Path, target: Path) -> None:
    """Move a downloaded archive to its place, if it is the right one."""
    check(source, path)
    path.replace(target)


def fetch(source: Source, named: Path | None = None) -> Path:
    """The path of a verified archive."""
    if named is None and os.environ.get(source.variable):
        named = Path(os.environ[source.variable])
    if named is not None:
        return from_user(source, named)

    target = cache_dir() / "downloads" / source.archive
    if target.is_file():
        check(source, target)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)

    origins: list[tuple[str, Callable[[], None]]] = [
        (f"Debian {source.debian_suite}", lambda: from_debian(source, target))
    ]
    for url in source.urls:
        origins.append((url, lambda url=url: from_url(source, url, target)))  # type: ignore[misc]
    failures: list[str] = []
    for label, origin in origins:
        note(f"fetching {source.name} {source.version} from {label}")
        try:
            origin()
        except FetchError as error:
            note(f"  failed: {error}")
            failures.append(f"{label}: {error}")
        else:
            return target
    raise FetchError(
        f"no origin has the source of {source.name} {source.version}:\n"
        + "\n".join(f"  {failure}" for failure in failures)
        + f"\nGet {source.archive} by other means and set {source.variable} to its path."
    )


def main() -> int:
    """Fetch one source and print its path."""
    parser = argparse.ArgumentParser(description="Get a pinned source archive.")
    parser.add_argument("name", nargs="?", default="ffmpeg", choices=sorted(SOURCES))
    parser.add_argument("--source", type=Path, help="an archive, or the folder that holds it")
    arguments = parser.parse_args()
    try:
        print(fetch(SOURCES[arguments.name], arguments.source))
    except FetchError as error:
        note(f"fetch_source: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
