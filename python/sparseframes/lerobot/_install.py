"""Putting `decode_video_frames` where LeRobot calls its own."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any

from sparseframes.errors import SparseError
from sparseframes.lerobot._decode import decode_video_frames
from sparseframes.lerobot._times import FrameTimestampError

KNOWN = ("0.4", "0.5", "0.6")
"""The series of LeRobot's releases whose readers are known."""

MODULE = "lerobot.datasets.video_utils"
NAME = "decode_video_frames"
# what the function takes in those releases: later ones have added at the end
PARAMETERS = ("video_path", "timestamps", "tolerance_s", "backend", "return_uint8", "is_depth")

_lock = threading.RLock()
_own: Callable[..., Any] | None = None


class VersionError(SparseError, RuntimeError):
    """LeRobot is missing, or of a version whose reader is not known."""


def install() -> None:
    """Have LeRobot decode through sparseframes, in this process and those it forks.

    ``lerobot.datasets.video_utils.decode_video_frames`` is replaced, there and in all modules that
    have imported it; data sets that are open read through it, too. A second call does nothing.
    Worker processes that are spawned have to call it themselves. `StreamingLeRobotDataset` has a
    reader of its own, which stays.

    Raises:
        VersionError: LeRobot is missing, or not of a known release.
    """
    global _own
    with _lock:
        module = _known_module()
        current = getattr(module, NAME)
        if getattr(current, "_sparseframes", False):
            return
        _own = current
        _exchange(current, _replacement(module, current))


def uninstall() -> None:
    """Put LeRobot's own reader back. Without an `install` before it nothing happens."""
    global _own
    with _lock:
        module = sys.modules.get(MODULE)
        if module is None or _own is None:
            return
        current = getattr(module, NAME)
        if getattr(current, "_sparseframes", False):
            _exchange(current, _own)
        _own = None


def installed() -> bool:
    """Whether LeRobot decodes through sparseframes now."""
    module = sys.modules.get(MODULE)
    return bool(getattr(getattr(module, NAME, None), "_sparseframes", False))


def _known_module() -> ModuleType:
    try:
        found = version("lerobot")
    except PackageNotFoundError:
        raise VersionError("lerobot is not installed") from None
    if _series(found) not in KNOWN:
        raise VersionError(
            f"lerobot {found} is not known: install() takes {', '.join(f'{s}.x' for s in KNOWN)}"
        )
    try:
        module = importlib.import_module(MODULE)
    except ImportError as error:
        raise VersionError(f"lerobot {found} can't be imported: {error}") from error
    own = getattr(module, NAME, None)
    if own is None:
        raise VersionError(f"lerobot {found} has no {MODULE}.{NAME}")
    if not getattr(own, "_sparseframes", False):
        names = tuple(inspect.signature(own).parameters)
        # a version number alone doesn't tell of a build with changes
        if names != PARAMETERS[: len(names)] or len(names) < 4:
            raise VersionError(
                f"{MODULE}.{NAME} of lerobot {found} takes {', '.join(names)}, which is not known"
            )
    return module


def _series(found: str) -> str:
    match = re.match(r"(\d+\.\d+)(?=\.|$)", found)
    return match[1] if match else found


def _replacement(module: ModuleType, own: Callable[..., Any]) -> Callable[..., Any]:
    """Our function with LeRobot's exception."""
    theirs: type[Exception] = getattr(module, "FrameTimestampError", FrameTimestampError)

    @functools.wraps(own)
    def replacement(*args: Any, **options: Any) -> Any:
        try:
            return decode_video_frames(*args, **options)
        except FrameTimestampError as error:
            raise theirs(str(error)) from error

    replacement._sparseframes = True  # type: ignore[attr-defined]
    return replacement


def _exchange(old: object, new: object) -> None:
    for module in _lerobot_modules():
        for name, value in list(vars(module).items()):
            if value is old:
                setattr(module, name, new)


def _lerobot_modules() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        if (name == "lerobot" or name.startswith("lerobot.")) and isinstance(module, ModuleType):
            yield module
