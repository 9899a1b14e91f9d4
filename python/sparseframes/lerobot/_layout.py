"""The v3 layout of LeRobot's data sets: which file holds what.

``meta/info.json`` tells the features and the patterns of the file names, the tables in
``meta/episodes`` which rows and which part of which video belong to an episode, and
``meta/tasks.parquet`` the sentences that the rows refer to by number.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparseframes.errors import SparseError

if TYPE_CHECKING:
    import pyarrow as pa

INFO = Path("meta/info.json")
TASKS = Path("meta/tasks.parquet")
EPISODES = Path("meta/episodes")
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
MAJOR = "v3."


class DatasetError(SparseError, ValueError):
    """A data set that is not in the v3 layout, or contradicts itself."""


@dataclass(frozen=True)
class VideoPart:
    """Where the frames of one camera of one episode are.

    Attributes:
        path: the video file, which may hold many episodes.
        from_timestamp, to_timestamp: the episode's part of it in seconds.
    """

    path: Path
    from_timestamp: float
    to_timestamp: float


@dataclass(frozen=True)
class Episode:
    """One episode.

    Attributes:
        index: its number in the data set.
        from_index, to_index: its rows are those with an ``index`` from the first to before the
            second.
        tasks: the sentences that tell what is done in it.
        data_path: the table that holds its rows.
        videos: by camera.
    """

    index: int
    from_index: int
    to_index: int
    tasks: tuple[str, ...]
    data_path: Path
    videos: dict[str, VideoPart]

    def __len__(self) -> int:
        return self.to_index - self.from_index


class Layout:
    """A data set's description.

    Args:
        root: the data set's folder.

    Raises:
        DatasetError: it is not in the v3 layout.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self.info = read_info(self.root)
        self.features: dict[str, dict[str, Any]] = self.info["features"]
        self.fps = float(self.info["fps"])

    @property
    def cameras(self) -> list[str]:
        """Keys of the features that are videos."""
        return [key for key, feature in self.features.items() if feature.get("dtype") == "video"]

    @property
    def depth_cameras(self) -> list[str]:
        """Keys of the videos that hold depth."""
        return [key for key in self.cameras if is_depth(self.features[key])]

    def episodes(self) -> list[Episode]:
        """All episodes, in the order of their numbers."""
        pq = need_parquet()
        files = sorted((self.root / EPISODES).glob("*/*.parquet"))
        if not files:
            raise DatasetError(f"{self.root / EPISODES}: there is no table of episodes in it")
        rows: list[dict[str, Any]] = []
        for file in files:
            names = [n for n in pq.read_schema(file).names if not n.startswith("stats/")]
            table: pa.Table = pq.read_table(file, columns=names)
            try:
                rows += table.to_pylist()
            except ValueError as error:
                raise DatasetError(f"{file}: {error}", file=str(file)) from None
        try:
            found = sorted((self._episode(row) for row in rows), key=lambda episode: episode.index)
        except (KeyError, TypeError) as error:
            raise DatasetError(
                f"{self.root / EPISODES}: the table of episodes lacks {error}"
            ) from None
        return found

    def tasks(self) -> dict[int, str]:
        """The tasks' sentences by number; empty if the data set has none."""
        pq = need_parquet()
        path = self.root / TASKS
        if not path.exists():
            return {}
        table = pq.read_table(path)
        # pandas wrote the sentences as an index, with or without a name
        texts = [name for name in table.column_names if name != "task_index"]
        if "task_index" not in table.column_names or not texts:
            raise DatasetError(f"{path}: there are no columns of tasks and numbers", file=str(path))
        name = "task" if "task" in texts else texts[0]
        numbers, sentences = table["task_index"].to_pylist(), table[name].to_pylist()
        return dict(zip(numbers, sentences, strict=True))

    def _episode(self, row: dict[str, Any]) -> Episode:
        data_path = self.info.get("data_path") or DATA_PATH
        video_path = self.info.get("video_path") or VIDEO_PATH
        videos = {}
        for key in self.cameras:
            prefix = f"videos/{key}/"
            name = video_path.format(
                video_key=key,
                chunk_index=row[prefix + "chunk_index"],
                file_index=row[prefix + "file_index"],
            )
            videos[key] = VideoPart(
                self.root / name,
                float(row[prefix + "from_timestamp"]),
                float(row[prefix + "to_timestamp"]),
            )
        name = data_path.format(
            chunk_index=row["data/chunk_index"], file_index=row["data/file_index"]
        )
        return Episode(
            index=int(row["episode_index"]),
            from_index=int(row["dataset_from_index"]),
            to_index=int(row["dataset_to_index"]),
            tasks=tuple(row.get("tasks") or ()),
            data_path=self.root / name,
            videos=videos,
        )


def need_parquet() -> Any:
    """The module that reads the tables; an ImportError with a way out if it is missing."""
    try:
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ImportError(
            f"data sets are read with pyarrow: pip install 'sparseframes[lerobot]' ({error})"
        ) from None
    return pyarrow.parquet


def read_info(root: Path) -> dict[str, Any]:
    """The contents of meta/info.json.

    Raises:
        DatasetError: it is missing, or tells of another layout.
    """
    path = root / INFO
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror}", file=str(path)) from None
    except ValueError as error:
        raise DatasetError(f"{path}: {error}", file=str(path)) from None
    if not isinstance(info, dict):
        raise DatasetError(f"{path}: it holds no object", file=str(path))
    version = info.get("codebase_version")
    if not isinstance(version, str) or not version.startswith(MAJOR):
        raise DatasetError(
            f"{path}: the layout is {version}, and only v3 is read; LeRobot converts older ones",
            file=str(path),
        )
    features, fps = info.get("features"), info.get("fps")
    if not isinstance(features, dict) or not all(isinstance(f, dict) for f in features.values()):
        raise DatasetError(f"{path}: there are no features in it", file=str(path))
    if isinstance(fps, bool) or not isinstance(fps, int | float) or fps <= 0:
        raise DatasetError(f"{path}: fps is {fps!r}", file=str(path))
    return info


def is_depth(feature: dict[str, Any]) -> bool:
    """Whether a feature's description says that it is depth: there are three places for it."""
    info, old = feature.get("info") or {}, feature.get("video_info") or {}
    marks = (
        info.get("is_depth_map"),
        info.get("video.is_depth_map"),
        old.get("video.is_depth_map"),
    )
    return any(marks)
