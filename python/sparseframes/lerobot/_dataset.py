"""`LeRobotEpisodes`: the samples of a data set in LeRobot's v3 layout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparseframes import errors
from sparseframes._indices import as_index, as_seconds
from sparseframes._types import Planes
from sparseframes.errors import ArgumentError
from sparseframes.lerobot._batch import Wanted, decode_together
from sparseframes.lerobot._cache import VideoDecoderCache
from sparseframes.lerobot._columns import Columns
from sparseframes.lerobot._decode import depth_codes
from sparseframes.lerobot._layout import DatasetError, Episode, Layout

Sample = dict[str, Any]


class LeRobotEpisodes:
    """The samples of a data set in LeRobot's v3 layout, as arrays. Needs pyarrow alone.

    ``data[k]`` is a dictionary of what row k tells: a NumPy array or number for each feature, and
    the ``task`` in words. Cameras are uint8 [3, H, W], depth is uint16 codes [1, H, W]. For a key
    in delta_timestamps there are as many rows, or frames, as it has times, with a leading axis
    (left out, as LeRobot does, for the frames of a single time), and ``<key>_is_pad`` is a bool [T]
    that tells where the episode has no such row and its first or last one stands in. Images in
    the table come as they are stored.

    It is what a ``torch.utils.data.DataLoader`` takes as a data set of samples; it can be pickled,
    and is opened anew where it arrives. After a fork the child opens its own decoders.

    Args:
        root: the data set's folder.
        delta_timestamps: by key, seconds before (negative) or after a row's own time.
        episodes: numbers of the episodes to read, None for all. Samples are then numbered within
            these.
        cameras: which cameras to decode; None for all.
        tolerance_s: seconds that a frame may be away from its time, and a delta from a multiple of
            a frame's duration, included.
        dimension_order: "NCHW" or "NHWC" for cameras.
        threads: of one `sparseframes.decode_batch`, which decodes all cameras of a sample, or of
            a batch of them.

    Attributes:
        root, fps, features: as the data set tells.
        episodes: the episodes that are read, in order, see `Episode`.

    Thread-safety: safe.

    Raises:
        DatasetError: the folder is no data set in the v3 layout, or contradicts itself.
        ArgumentError: an argument is not allowed; a ValueError.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        delta_timestamps: dict[str, Sequence[float]] | None = None,
        episodes: Sequence[int] | None = None,
        cameras: Sequence[str] | None = None,
        tolerance_s: float = 1e-4,
        dimension_order: Literal["NCHW", "NHWC"] = "NCHW",
        threads: int = 1,
    ) -> None:
        if dimension_order not in ("NCHW", "NHWC"):
            raise ArgumentError(
                f"dimension_order must be 'NCHW' or 'NHWC', not {dimension_order!r}"
            )
        self._options: dict[str, Any] = {
            "delta_timestamps": delta_timestamps,
            "episodes": episodes,
            "cameras": cameras,
            "tolerance_s": tolerance_s,
            "dimension_order": dimension_order,
            "threads": threads,
        }
        self._layout = Layout(root)
        self.root, self.fps = self._layout.root, self._layout.fps
        self.features = self._layout.features
        self._tolerance = as_seconds(tolerance_s)
        self._channels_first = dimension_order == "NCHW"
        self._threads = threads
        self._cameras = self._choose_cameras(cameras)
        self._depth = set(self._layout.depth_cameras)
        self.episodes = self._choose_episodes(episodes)
        self._deltas = self._frame_deltas(delta_timestamps or {})
        shapes = {k: tuple(f["shape"]) for k, f in self.features.items() if "shape" in f}
        files = list(dict.fromkeys(episode.data_path for episode in self.episodes))
        self._columns = Columns(files, shapes, None if episodes is None else list(episodes))
        for key in self._deltas:
            if key not in self._cameras and key not in self._columns.names():
                raise ArgumentError(f"delta_timestamps: the data set has no {key!r}")
        self._tasks = self._layout.tasks()
        self._by_number = {episode.index: episode for episode in self.episodes}
        self._row_of = _Rows(self._columns.arrays["index"], self.episodes, self.root)
        self._videos = VideoDecoderCache()

    # -- facts ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._columns.count

    @property
    def cameras(self) -> list[str]:
        """Keys of the cameras that are decoded."""
        return list(self._cameras)

    @property
    def depth_cameras(self) -> list[str]:
        """Keys of those cameras that give depth."""
        return [key for key in self._cameras if key in self._depth]

    @property
    def tasks(self) -> dict[int, str]:
        """The tasks in words, by number."""
        return dict(self._tasks)

    def __repr__(self) -> str:
        return (
            f"<LeRobotEpisodes {str(self.root)!r}: {len(self.episodes)} episodes, "
            f"{len(self)} samples, {', '.join(self._cameras) or 'no cameras'}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_again, (self.root.absolute(), self._options)

    # -- samples ----------------------------------------------------------------------------

    def __getitem__(self, index: int) -> Sample:
        """One sample; negative numbers count from the end.

        Raises:
            IndexError: there is no such sample.
            FrameTimestampError: a video has no frame at the time that the row tells.
            SparseError: what else `VideoDecoder` raises.
        """
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Sample]:
        """Several samples, all of whose frames are decoded together."""
        samples: list[Sample] = []
        wanted: list[Wanted] = []
        for index in indices:
            sample, frames = self._prepare(self._checked(index))
            samples.append(sample)
            wanted += frames
        for request, data in zip(
            wanted, decode_together(wanted, self._tolerance, self._threads), strict=True
        ):
            request.target[request.key] = self._arranged(request, data)
        return samples

    def _checked(self, index: int) -> int:
        number = as_index(index)
        count = len(self)
        if not -count <= number < count:
            raise errors.IndexError(f"{self.root}: there is no sample {number}: there are {count}")
        return number % count

    def _prepare(self, row: int) -> tuple[Sample, list[Wanted]]:
        """A sample without its frames, and the frames that it wants."""
        columns = self._columns
        sample: Sample = {name: columns.row(name, row) for name in columns.names()}
        episode = self._by_number[int(sample["episode_index"])]
        index = int(sample["index"])
        rows: dict[str, list[int]] = {}
        for key, deltas in self._deltas.items():
            asked = index + deltas
            inside = np.clip(asked, episode.from_index, episode.to_index - 1)
            sample[f"{key}_is_pad"] = asked != inside
            rows[key] = [self._row_of[int(k)] for k in inside]
            if key not in self._cameras:
                sample[key] = columns.rows(key, rows[key])
        wanted = []
        for key in self._cameras:
            part = episode.videos[key]
            times = columns.arrays["timestamp"][rows.get(key, [row])].astype(np.float64)
            video = self._videos.get(part.path, "native" if key in self._depth else "rgb24")
            wanted.append(Wanted(sample, key, video, (part.from_timestamp + times).tolist()))
        if "task_index" in sample:
            sample["task"] = self._task(int(sample["task_index"]))
        return sample, wanted

    def _task(self, number: int) -> str:
        try:
            return self._tasks[number]
        except KeyError:
            raise DatasetError(f"{self.root}: there is no task {number}") from None

    def _arranged(self, request: Wanted, data: NDArray[Any] | Planes) -> NDArray[Any]:
        if isinstance(data, Planes):
            codes = depth_codes(data, request.video.decoder._source.name)
            pixels: NDArray[Any] = codes[..., np.newaxis]
        else:
            pixels = data
        if self._channels_first:
            pixels = pixels.transpose(0, 3, 1, 2)
        return pixels[0] if len(pixels) == 1 else pixels

    # -- opening ----------------------------------------------------------------------------

    def _choose_cameras(self, asked: Sequence[str] | None) -> list[str]:
        known = self._layout.cameras
        if asked is None:
            return known
        for key in asked:
            if key not in known:
                raise ArgumentError(
                    f"cameras: there is no {key!r}; there are {', '.join(known) or 'none'}"
                )
        return list(dict.fromkeys(asked))

    def _choose_episodes(self, asked: Sequence[int] | None) -> list[Episode]:
        known = self._layout.episodes()
        if asked is None:
            return known
        by_number = {episode.index: episode for episode in known}
        for number in asked:
            if number not in by_number:
                raise ArgumentError(f"episodes: there is no {number!r}; there are {len(known)}")
        return [by_number[number] for number in sorted(set(asked))]

    def _frame_deltas(
        self, delta_timestamps: dict[str, Sequence[float]]
    ) -> dict[str, NDArray[np.int64]]:
        deltas = {}
        for key, times in delta_timestamps.items():
            frames = np.array([as_seconds(time) for time in times]) * self.fps
            whole = np.rint(frames)
            off = np.abs(frames - whole) / self.fps > self._tolerance
            if not len(frames) or off.any():
                wrong = [time for time, is_off in zip(times, off, strict=True) if is_off]
                raise ArgumentError(
                    f"delta_timestamps: {key!r} needs multiples of 1/{self.fps:g} s, not "
                    f"{wrong or 'nothing'}"
                )
            deltas[key] = whole.astype(np.int64)
        return deltas


class _Rows:
    """Which row of the table has which ``index``."""

    def __init__(self, index: NDArray[Any], episodes: Sequence[Episode], root: Path) -> None:
        self._order = np.argsort(index, kind="stable")
        self._sorted = index[self._order]
        for episode in episodes:
            span = np.searchsorted(self._sorted, [episode.from_index, episode.to_index])
            if int(span[1] - span[0]) != len(episode):
                raise DatasetError(
                    f"{root}: episode {episode.index} should have {len(episode)} rows and has "
                    f"{int(span[1] - span[0])}"
                )

    def __getitem__(self, index: int) -> int:
        return int(self._order[np.searchsorted(self._sorted, index)])


def _open_again(root: Path, options: dict[str, Any]) -> LeRobotEpisodes:
    return LeRobotEpisodes(root, **options)
