"""Fixtures: the small inputs of `media`, and what linear decodes make of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import media

from sparseframes import VideoDecoder, clear_cache
from sparseframes.validation.reference import pyav_frames, pyav_planes

Linear = Callable[..., list[list[Any]]]


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    """Tests that count pictures begin with none."""
    clear_cache()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the inputs are made."""
    return tmp_path_factory.mktemp("inputs")


@pytest.fixture(scope="session")
def clip(folder: Path) -> Callable[[str], str]:
    """clip("pyramid.mp4") is the path of that input."""
    return lambda name: str(media.make(name, folder))


@pytest.fixture(scope="session")
def linear(clip: Callable[[str], str]) -> Linear:
    """linear("pyramid.mp4") is the list of all frames' native planes, as PyAV decodes them."""

    @cache
    def decode(name: str, video: int = 0) -> list[list[Any]]:
        return [pyav_planes(frame) for frame in pyav_frames(clip(name), video=video)]

    return decode


@pytest.fixture
def pyramid(clip: Callable[[str], str]) -> Iterator[VideoDecoder]:
    """An open decoder of pyramid.mp4."""
    with VideoDecoder(clip("pyramid.mp4")) as decoder:
        yield decoder
