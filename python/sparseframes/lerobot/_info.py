"""What a data set tells of its videos' encoding, under LeRobot's names."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from sparseframes._decoder import VideoDecoder
from sparseframes.encode import PROFILES, Settings


def described(video: Path, settings: Settings) -> dict[str, Any]:
    """The ``video.*`` fields of an encoded file.

    ``g``, ``crf`` and ``preset`` are those of the encoder that LeRobot calls by the codec's name;
    what makes the structure special has no field.
    """
    with VideoDecoder(video) as decoder:
        facts = decoder.metadata
    pixel_format = facts.pixel_format or ""
    quality = settings.quality
    return {
        "video.codec": facts.codec,
        "video.pix_fmt": pixel_format,
        "video.height": facts.height,
        "video.width": facts.width,
        "video.channels": 1 if pixel_format.startswith("gray") else 3,
        "video.g": settings.period,
        "video.crf": int(quality) if quality == int(quality) else quality,
        "video.preset": settings.preset or PROFILES[settings.codec][settings.profile].preset,
        "video.fast_decode": 0,
        "video.extra_options": {},
    }


def fresh_info(info: dict[str, Any], videos: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A copy of info.json's contents with new fields for some of the videos, by their keys."""
    fresh = copy.deepcopy(info)
    for key, fields in videos.items():
        feature = fresh["features"][key]
        # older data sets call it so
        place = "video_info" if "video_info" in feature and "info" not in feature else "info"
        feature[place] = {**(feature.get(place) or {}), **fields}
    return fresh
