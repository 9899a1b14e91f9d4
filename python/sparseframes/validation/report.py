"""Results as JSON, as JUnit XML and in words."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparseframes.validation.results import FileResult, Mismatch, summary

# what XML 1.0 can't hold, not even escaped
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_json(results: Sequence[FileResult]) -> dict[str, Any]:
    """All results and their sums as plain values."""
    return {"files": [result.to_json() for result in results], "summary": summary(results)}


def to_junit(results: Sequence[FileResult]) -> str:
    """All results as one JUnit test suite: a test case a file, a failure a mismatch.

    Files that were not read are errors; those of which the process died, too.
    """
    bad = ("refused", "unreadable", "failed")
    suite = ET.Element(
        "testsuite",
        name="sparseframes validate",
        tests=str(len(results)),
        failures=str(sum(result.status == "mismatch" for result in results)),
        errors=str(sum(result.status in bad for result in results)),
        skipped="0",
        time=f"{sum(result.seconds for result in results):.3f}",
    )
    for result in results:
        path = Path(result.file)
        case = ET.SubElement(
            suite,
            "testcase",
            classname=_text(str(path.parent)),
            name=_text(path.name),
            time=f"{result.seconds:.3f}",
        )
        for mismatch in result.mismatches:
            failure = ET.SubElement(
                case, "failure", type=mismatch.kind, message=_text(mismatch.detail)
            )
            failure.text = _text(in_words(mismatch))
        if result.status in bad:
            ET.SubElement(case, "error", type=result.status, message=_text(result.reason))
        notes = [
            f"{result.codec}: {result.frames} frames, {result.requests} requests, "
            f"{result.checked} frames compared, {result.reconstructed} pictures reconstructed of "
            f"{result.planned} planned",
            *result.notes,
        ]
        ET.SubElement(case, "system-out").text = _text("\n".join(notes))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def in_words(mismatch: Mismatch) -> str:
    """What is wrong, and the command that shows it again."""
    frame = f"frame {mismatch.index} ({mismatch.picture_type}, picture {mismatch.picture})"
    where = f"plane {mismatch.plane} x {mismatch.x} y {mismatch.y}"
    return (
        f"{mismatch.file}: {mismatch.kind}"
        + (f", {frame}" if mismatch.index >= 0 else "")
        + (f", {where}" if mismatch.plane >= 0 else "")
        + f": {mismatch.detail}; request {mismatch.number} ({mismatch.pattern}) "
        f"{list(mismatch.request)}, closure {list(mismatch.closure)}, seed {mismatch.seed}\n"
        f"  {mismatch.command}"
    )


def _text(words: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", words)
