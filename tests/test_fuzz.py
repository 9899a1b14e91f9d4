"""The campaign over damaged variants and the fuzz targets, in small."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import media
import pytest

sys.path.insert(0, str(Path(__file__).parent / "fuzz"))

import campaign

from sparseframes._binding import Reader

BUILD = Path(__file__).resolve().parents[1] / "build" / "tests"


def seeds(folder: Path) -> None:
    """Two small streams."""
    media.encode(folder / "a.264", numbers=range(10), size=(64, 48), g="5")
    media.encode(folder / "b.hevc", "libx265", numbers=range(10), size=(64, 48))


def run(monkeypatch: pytest.MonkeyPatch, *words: Any) -> int:
    monkeypatch.setattr(sys, "argv", ["campaign", *map(str, words)])
    return campaign.main()


def test_campaign_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    seeds(folder)
    journal = tmp_path / "journal"
    assert run(monkeypatch, folder, "--variants", 12, "--journal", journal) == 0
    first = journal.read_text().splitlines()
    assert len(first) == 12
    assert {json.loads(line)["status"] for line in first} <= {"fine", "refused", "stale"}
    with journal.open("a") as file:
        file.write('{"number": 12, "fi')
    journal.write_text("\n".join(first) + "\n")
    assert run(monkeypatch, folder, "--variants", 16, "--journal", journal) == 0
    assert journal.read_text().splitlines()[:12] == first
    assert len(journal.read_text().splitlines()) == 16
    assert "16 variants of 2 files" in capsys.readouterr().out


def test_a_wrong_frame_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Reader.get_frames

    def wrong(self: Reader, indices: Any, pixel_format: str, batch: Any, *more: Any) -> None:
        honest(self, indices, pixel_format, batch, *more)
        batch[0].reshape(-1)[0] ^= 1

    seeds(tmp_path)
    files = campaign.files_of([str(tmp_path)], 10**6)
    hevc = next(file for file in files if file.endswith(".hevc"))
    assert campaign.examine(hevc, 1, 0)["status"] in ("fine", "refused")
    monkeypatch.setattr(Reader, "get_frames", wrong)
    found = {campaign.examine(hevc, number, 0)["status"] for number in range(6)}
    assert "wrong" in found


def test_a_crash_and_a_hang_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = campaign.Worker()
    try:
        # a file that isn't there ends the process
        assert worker.examine(str(tmp_path / "x"), 0, 0, 60)["status"] == "crash"
        seeds(tmp_path)
        begun = time.monotonic()
        assert worker.examine(str(tmp_path / "a.264"), 0, 0, 0.0)["status"] == "hang"
        assert time.monotonic() - begun < 30
        assert worker.examine(str(tmp_path / "a.264"), 0, 0, 60)["status"] in ("fine", "stale")
    finally:
        worker.close()


def test_variants_are_what_their_number_says(tmp_path: Path) -> None:
    seeds(tmp_path)
    file = str(tmp_path / "a.264")
    data = Path(file).read_bytes()
    made = [campaign.variant(file, number, 7) for number in range(40)]
    assert made == [campaign.variant(file, number, 7) for number in range(40)]
    assert all(variant != data for _, variant in made)
    assert len({kind for kind, _ in made}) == 7


@pytest.mark.parametrize("target", ["open", "frames", "io"])
def test_fuzz_target(target: str, tmp_path: Path) -> None:
    program = BUILD / f"fuzz_{target}"
    if not program.exists():
        pytest.skip("the C tests are not built")
    seeds(tmp_path)
    rng = random.Random(1)
    for number in range(10):
        source = str(tmp_path / ("a.264" if number % 2 else "b.hevc"))
        head = rng.randbytes(4) if target == "io" else b""
        tail = rng.randbytes(7) if target == "frames" else b""
        data = campaign.variant(source, number, 1)[1]
        (tmp_path / f"{number}.bin").write_bytes(head + data + tail)
    subprocess.run([program, *sorted(tmp_path.iterdir())], check=True, timeout=300)
