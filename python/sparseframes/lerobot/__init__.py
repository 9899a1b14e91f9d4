"""LeRobot's data sets, and a place among LeRobot's own readers.

`decode_video_frames` is LeRobot's function of that name, and `install` puts it where LeRobot calls
its own; both need torch. `LeRobotEpisodes` reads data sets in the v3 layout with pyarrow alone, and
`convert` encodes their videos again so that any frame costs at most three pictures.
"""

from __future__ import annotations

from sparseframes.lerobot._cache import VideoDecoderCache
from sparseframes.lerobot._convert import ConvertResult, convert
from sparseframes.lerobot._dataset import LeRobotEpisodes
from sparseframes.lerobot._decode import decode_video_frames
from sparseframes.lerobot._install import VersionError, install, installed, uninstall
from sparseframes.lerobot._layout import DatasetError, Episode, VideoPart
from sparseframes.lerobot._times import FrameTimestampError

__all__ = [
    "ConvertResult",
    "DatasetError",
    "Episode",
    "FrameTimestampError",
    "LeRobotEpisodes",
    "VersionError",
    "VideoDecoderCache",
    "VideoPart",
    "convert",
    "decode_video_frames",
    "install",
    "installed",
    "uninstall",
]
