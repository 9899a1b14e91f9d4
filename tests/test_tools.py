"""The build's own tools: where sources come from, and how strictly patches apply."""

from __future__ import annotations

import dataclasses
import hashlib
import tarfile
from pathlib import Path

import pytest

import build_ffmpeg
import fetch_source

CONTENT = b"an archive"
SOURCE = dataclasses.replace(
    fetch_source.SOURCES["ffmpeg"], sha256=hashlib.sha256(CONTENT).hexdigest(), urls=()
)

ONE_LINE = """\
# a comment
deb http://mirror.example/debian bookworm main contrib
deb-src [arch=amd64 signed-by=/keys/debian.gpg] http://mirror.example/debian bookworm main
deb [signed-by=/keys/other.gpg] https://other.example stable main
"""

DEB822 = """\
Types: deb deb-src
# in the middle
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /keys/debian.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----

Enabled: no
Types: deb
URIs: http://disabled.example/debian
Suites: bookworm
Components: main
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(SOURCE.variable, raising=False)
    return tmp_path / "cache/sparseframes/downloads"


def test_one_line_sources() -> None:
    entries = list(fetch_source.parse_one_line(ONE_LINE))
    assert [entry.uris[0] for entry in entries] == [
        "http://mirror.example/debian",
        "http://mirror.example/debian",
        "https://other.example",
    ]
    assert [entry.signed_by for entry in entries] == ["", "/keys/debian.gpg", "/keys/other.gpg"]


def test_deb822_sources() -> None:
    main, security = fetch_source.parse_deb822(DEB822)
    assert main.suites == ("bookworm", "bookworm-updates")
    assert main.signed_by == "/keys/debian.gpg"
    assert security.uris == ("http://mirror.example/debian-security",)
    assert "BEGIN PGP PUBLIC KEY BLOCK" in security.signed_by


def test_mirrors_of_a_debian_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fetch_source, "os_release", lambda: {"ID": "debian", "VERSION_CODENAME": "bookworm"}
    )
    mirrors = fetch_source.debian_mirrors(SOURCE, list(fetch_source.parse_deb822(DEB822)))
    assert [(mirror.uris[0], mirror.suites) for mirror in mirrors] == [
        ("http://mirror.example/debian", ("trixie",)),
        ("http://mirror.example/debian-security", ("trixie-security",)),
    ]


@pytest.mark.parametrize("has_keyring", [False, True])
def test_mirrors_of_an_ubuntu_machine(
    has_keyring: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = tmp_path / "keyring.gpg"
    if has_keyring:
        keyring.touch()
    monkeypatch.setattr(fetch_source, "DEBIAN_KEYRING", keyring)
    monkeypatch.setattr(
        fetch_source, "os_release", lambda: {"ID": "ubuntu", "VERSION_CODENAME": "noble"}
    )
    ubuntu = [fetch_source.AptEntry(("http://archive.ubuntu.com/ubuntu",), ("noble",), "")]
    mirrors = fetch_source.debian_mirrors(SOURCE, ubuntu)
    assert bool(mirrors) is has_keyring
    assert all(mirror.signed_by == str(keyring) for mirror in mirrors)


def test_version_made_from_the_archive() -> None:
    showsrc = (
        "Package: ffmpeg\nVersion: 7:7.1.6-0+deb13u1\nChecksums-Sha256:\n 00 1 a.orig.tar.xz\n\n"
        f"Package: ffmpeg\nVersion: 7:7.1.5-0+deb13u1\nChecksums-Sha256:\n {SOURCE.sha256} 1 b\n"
    )
    assert fetch_source.source_version(SOURCE, showsrc) == "7:7.1.5-0+deb13u1"
    assert fetch_source.source_version(SOURCE, "Package: ffmpeg\nVersion: 1\n") is None


@pytest.mark.parametrize("in_folder", [False, True])
def test_archive_named_by_the_user(
    in_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / SOURCE.archive
    archive.write_bytes(CONTENT)
    monkeypatch.setenv(SOURCE.variable, str(tmp_path if in_folder else archive))
    assert fetch_source.fetch(SOURCE) == archive


def test_wrong_archive_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / SOURCE.archive
    archive.write_bytes(CONTENT + b"!")
    with pytest.raises(fetch_source.FetchError, match="expected SHA-256") as caught:
        fetch_source.fetch(SOURCE, archive)
    assert hashlib.sha256(CONTENT + b"!").hexdigest() in str(caught.value)


def test_damaged_cache_is_refused(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / SOURCE.archive).write_bytes(b"half of it")
    with pytest.raises(fetch_source.FetchError, match="is not the ffmpeg"):
        fetch_source.fetch(SOURCE)


def test_next_origin_is_tried(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, right = tmp_path / "wrong", tmp_path / "right"
    wrong.write_bytes(b"a page that says not found")
    right.write_bytes(CONTENT)
    monkeypatch.setattr(fetch_source.shutil, "which", lambda name: None)
    urls = (wrong.as_uri(), (tmp_path / "none").as_uri(), right.as_uri())
    assert fetch_source.fetch(dataclasses.replace(SOURCE, urls=urls)) == cache / SOURCE.archive
    (cache / SOURCE.archive).unlink()
    with pytest.raises(fetch_source.FetchError, match=SOURCE.variable):
        fetch_source.fetch(dataclasses.replace(SOURCE, urls=urls[:2]))


PATCH = """\
--- a/file
+++ b/file
@@ -2,3 +2,3 @@
 2
-3
+three
 4
"""


@pytest.mark.parametrize(
    ("lines", "strict", "applies"),
    [
        ("1 2 3 4 5", True, True),
        ("1 2 X 4 5", False, False),
        ("1 2 3 X 5", False, False),  # would apply with fuzz
        ("0 1 2 3 4 5", False, True),
        ("0 1 2 3 4 5", True, False),
    ],
)
def test_patches_apply_without_fuzz(
    lines: str, strict: bool, applies: bool, tmp_path: Path
) -> None:
    (tmp_path / "tree").mkdir()
    file = tmp_path / "tree/file"
    file.write_text("\n".join(lines.split()) + "\n")
    patch = tmp_path / "0001-a.patch"
    patch.write_text(PATCH)
    if applies:
        build_ffmpeg.apply_patches(tmp_path / "tree", [patch], allow_offset=not strict)
        assert "three" in file.read_text()
    else:
        with pytest.raises(build_ffmpeg.BuildError, match=r"0001-a\.patch does not apply"):
            build_ffmpeg.apply_patches(tmp_path / "tree", [patch], allow_offset=not strict)


def test_a_build_is_known_by_its_dav1d(monkeypatch: pytest.MonkeyPatch) -> None:
    options = build_ffmpeg.configure_options(sanitize=False, debug=False)
    key = build_ffmpeg.build_key(options)
    assert build_ffmpeg.build_key(options) == key
    other = dataclasses.replace(fetch_source.SOURCES["dav1d"], sha256="0" * 64)
    monkeypatch.setattr(build_ffmpeg, "DAV1D", other)
    assert build_ffmpeg.build_key(options) != key


def test_series_names_a_missing_patch(tmp_path: Path) -> None:
    (tmp_path / "series").write_text("# order\n0001-a.patch\n\n")
    with pytest.raises(build_ffmpeg.BuildError, match=r"0001-a\.patch"):
        build_ffmpeg.series(tmp_path)


def test_what_is_built_is_whole_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "code").write_text("some code")
    archive = tmp_path / "source.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(tmp_path / "source", "source")
    home, prefix = tmp_path / "home", tmp_path / "home" / "key"

    def fail(tree: Path, made: Path, log: Path) -> None:
        (made / "half").write_text("")
        raise build_ffmpeg.BuildError("the compiler is ill")

    def copy(tree: Path, made: Path, log: Path) -> None:
        assert not any(made.iterdir())
        log.write_text("copied")
        (made / "code").write_text((tree / "code").read_text())

    with pytest.raises(build_ffmpeg.BuildError, match="ill"):
        build_ffmpeg.built_once(prefix, "it", lambda: archive, fail)
    assert not prefix.exists()
    assert build_ffmpeg.built_once(prefix, "it", lambda: archive, copy) == prefix
    assert (prefix / "code").read_text() == "some code"
    assert (home / "key.log").read_text() == "copied"
    assert sorted(path.name for path in home.iterdir()) == ["key", "key.lock", "key.log"]
    # what is there is not made again
    assert build_ffmpeg.built_once(prefix, "it", lambda: archive, fail) == prefix
