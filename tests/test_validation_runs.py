"""Validation of many files: processes, journals, presets, reports and exit statuses."""

from __future__ import annotations

import json
import shlex
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparseframes._binding import Reader
from sparseframes.cli import _validate
from sparseframes.cli._app import run
from sparseframes.validation import PATTERNS, PRESETS, FileResult, Mismatch, Options, exit_status
from sparseframes.validation import runner as runner_module
from sparseframes.validation.report import to_junit
from sparseframes.validation.runner import Journal, JournalError, run_files

Clip = Callable[[str], str]
FEW = Options(requests=3, frames_per_request=3)


def spoil(monkeypatch: pytest.MonkeyPatch, frame: int) -> None:
    """A decoder that gets one sample of one frame wrong."""
    honest = Reader.get_frames

    def wrong(self: Reader, indices: Any, pixel_format: str, batch: Any, *more: Any) -> None:
        honest(self, indices, pixel_format, batch, *more)
        for k, index in enumerate(indices):
            if index == frame:
                batch[k].reshape(-1)[77] ^= 4

    monkeypatch.setattr(Reader, "get_frames", wrong)


def test_a_wrong_decoder_is_told_and_shown_again(
    clip: Clip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(monkeypatch, 41)
    report = tmp_path / "junit.xml"
    words = ["--requests", "40", "--seed", "9", "--junit", str(report)]
    assert run(["validate", clip("pyramid.mp4"), *words, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["files"][0]["mismatches"]
    assert {mismatch["index"] for mismatch in found} == {41}
    one = found[0]
    assert one["picture_type"] in ("I", "P", "B")
    assert one["picture"] in one["closure"]
    assert one["plane"] == 0
    assert one["expected"] ^ one["got"] == 4
    # the command that is named shows the same
    words = shlex.split(one["command"])
    assert words[:2] == ["sparseframes", "validate"]
    assert run([*words[1:], "--json"]) == 1
    again = json.loads(capsys.readouterr().out)["files"][0]["mismatches"]
    assert again[0] == {**one, "command": again[0]["command"]}
    assert again[-1]["number"] == again[0]["number"]
    # so does the report
    suite = ET.parse(report).getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "1", "0")
    failures = suite.findall("testcase/failure")
    assert len(failures) == len(found)
    assert "frame 41" in (failures[0].text or "")


def test_junit_is_well_formed_whatever_the_words() -> None:
    name = 'a<b>&"\x00\x1b\ud800.mp4'
    results = [
        FileResult(name, "mismatch", mismatches=[Mismatch(name, "rgb", 3, "<\x01>")]),
        FileResult(name, "unreadable", reason="]]>\uffff"),
        FileResult("dir/b.mp4", notes=["\x08"]),
    ]
    suite = ET.fromstring(to_junit(results).split("?>", 1)[1]).find("testsuite")
    assert suite is not None
    cases = suite.findall("testcase")
    assert [len(case.findall("failure")) for case in cases] == [1, 0, 0]
    assert [len(case.findall("error")) for case in cases] == [0, 1, 0]
    assert (cases[2].get("classname"), cases[2].get("name")) == ("dir", "b.mp4")


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["exact", "exact"], 0),
        (["exact", "unreadable"], 2),
        (["refused", "exact"], 2),
        (["unreadable", "mismatch"], 1),
        (["failed"], 1),
    ],
)
def test_exit_status(statuses: list[str], expected: int) -> None:
    assert exit_status([FileResult("a", status) for status in statuses]) == expected


def test_a_stopped_run_goes_on(clip: Clip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [clip("onekey.mp4"), clip("nobframes.mp4"), clip("oneframe.mp4")]
    done: list[str] = []
    honest = runner_module.check_file

    def counted(path: str, options: Options, **more: Any) -> FileResult:
        done.append(path)
        if len(done) == 2:
            raise KeyboardInterrupt
        return honest(path, options, **more)

    monkeypatch.setattr(runner_module, "check_file", counted)
    journal = str(tmp_path / "journal")
    with pytest.raises(KeyboardInterrupt):
        list(run_files(files, [FEW] * 3, journal=Journal(journal)))
    assert done == files[:2]
    # the stop came in the middle of a line
    with Path(journal).open("a") as file:
        file.write('{"key": "12')
    results = list(run_files(files, [FEW] * 3, journal=Journal(journal)))
    assert done == [*files[:2], *files[1:]]
    assert [result.file for result in results] == files
    assert {result.status for result in results} == {"exact"}
    # nothing is left to do; other options are another run
    assert list(run_files(files, [FEW] * 3, journal=Journal(journal))) == results
    assert len(done) == 4
    list(run_files(files[2:], [Options(requests=2)], journal=Journal(journal)))
    assert len(done) == 5


def test_a_journal_that_is_none(tmp_path: Path, clip: Clip, capsys: Any) -> None:
    bad = tmp_path / "journal"
    bad.write_text("this is no journal\nat all\n")
    with pytest.raises(JournalError):
        Journal(str(bad))
    assert run(["validate", clip("oneframe.mp4"), "--resume", str(bad)]) == 2
    assert "line 1" in capsys.readouterr().err
    assert run(["validate", clip("oneframe.mp4"), "--resume", str(tmp_path)]) == 2


def test_a_result_goes_to_json_and_back() -> None:
    result = FileResult(
        "a", "mismatch", frames=3, mismatches=[Mismatch("a", "rgb", 1, "x", (1, 2), closure=(4,))]
    )
    assert FileResult.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_the_papers_preset() -> None:
    files = 7
    options = _validate.choose("paper", None, {}, files)
    assert sum(one.requests for one in options) == 10_000
    assert {one.frames_per_request for one in options} == {10}
    assert all(one.exact_size for one in options)
    assert {"first", "last", "access", "leading", "repeated", "shuffled"} <= set(
        options[0].patterns
    )
    options = _validate.choose("paper", None, {"requests": 50, "seed": 3}, files)
    assert sum(one.requests for one in options) == 50
    assert {one.seed for one in options} == {3}
    assert set(PRESETS["full"].options.patterns) == set(PATTERNS)


def test_the_papers_preset_returns_ten_frames_a_request(clip: Clip, capsys: Any) -> None:
    words = ["--preset", "paper", "--requests", "20", "--json"]
    assert run(["validate", clip("hevc_opengop.mp4"), clip("opengop.mp4"), *words]) == 0
    sums = json.loads(capsys.readouterr().out)["summary"]
    assert sums["requests"] == 20
    assert sums["frames_returned"] == sums["frames_checked"] == 200


def test_pixels_and_patterns(clip: Clip, capsys: Any) -> None:
    words = ["--pixels", "native", "--patterns", "after,single", "--requests", "4", "--json"]
    assert run(["validate", clip("pyramid.mp4"), *words, "--frames-per-request", "6"]) == 0
    done = json.loads(capsys.readouterr().out)["files"][0]
    assert done["patterns"] == {"after": 2, "single": 2}
    assert done["checked"] == 2 * 6 + 2
    assert run(["validate", clip("pyramid.mp4"), "--patterns", "single,nope"]) == 2
    assert "nope" in capsys.readouterr().err


def test_time_limit(clip: Clip) -> None:
    options = Options(requests=5000, seconds=0.01)
    result = runner_module.check_file(clip("oneframe.mp4"), options)
    assert result.status == "exact"
    assert 1 <= result.requests < 5000
