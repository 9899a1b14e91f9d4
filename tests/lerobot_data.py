"""Small data sets in LeRobot's v3 layout, made with PyAV and pyarrow alone.

Every picture carries a number, see `media.number_of`: the row's index for the first camera, 100
more for the second. As in LeRobot's own, episodes are encoded one by one and joined by copying
their packets; here two of them go into one file and the others into the next.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import media
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# the encoder tells of itself otherwise
os.environ.setdefault("SVT_LOG", "1")

FPS = 30
SIZE = (128, 96)
LENGTHS = (12, 9, 7)
TASKS = ("pick the block", "put it down")
TOP, WRIST, DEPTH = "observation.images.top", "observation.images.wrist", "observation.depth"
SHIFT = {TOP: 0, WRIST: 100, DEPTH: 50}

SVT_AV1 = {"g": "2", "crf": "30", "preset": "12"}
X264 = {"g": "20", "bf": "3"}


@dataclass
class Made:
    """What was made: for each row its episode, and for each camera the numbers in its pictures."""

    root: Path
    episode_of: list[int]
    numbers: dict[str, list[int]] = field(default_factory=dict)


def make_dataset(
    root: Path,
    encoder: str = "libx264",
    options: dict[str, str] | None = None,
    lengths: tuple[int, ...] = LENGTHS,
    depth: bool = False,
) -> Made:
    """Make a data set of some episodes and two cameras; with depth, a third one."""
    cameras = [TOP, WRIST, *([DEPTH] if depth else [])]
    options = (SVT_AV1 if encoder == "libsvtav1" else X264) if options is None else options
    starts = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    rows = starts[-1]
    made = Made(root, np.repeat(np.arange(len(lengths)), lengths).tolist())
    files = [k for k in (range(2), range(2, len(lengths))) if len(k)]
    episodes: list[dict[str, Any]] = [
        {
            "episode_index": k,
            "tasks": [TASKS[k % 2]],
            "length": length,
            "data/chunk_index": 0,
            "data/file_index": min(k, 1),
            "dataset_from_index": starts[k],
            "dataset_to_index": starts[k + 1],
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
            "stats/action/mean": [0.5],
        }
        for k, length in enumerate(lengths)
    ]
    features = _features(cameras)
    for key in cameras:
        made.numbers[key] = [SHIFT[key] + k for k in range(rows)]
        for number, members in enumerate(files):
            path = root / "videos" / key / "chunk-000" / f"file-{number:03d}.mp4"
            path.parent.mkdir(parents=True, exist_ok=True)
            parts = []
            for k in members:
                part = path.with_suffix(f".{k}.mp4")
                shown = made.numbers[key][starts[k] : starts[k + 1]]
                encode(part, shown, *(("libx265", {}) if key == DEPTH else (encoder, options)))
                parts.append(part)
                before = starts[k] - starts[members[0]]
                episodes[k] |= {
                    f"videos/{key}/chunk_index": 0,
                    f"videos/{key}/file_index": number,
                    f"videos/{key}/from_timestamp": before / FPS,
                    f"videos/{key}/to_timestamp": (before + lengths[k]) / FPS,
                }
            join(parts, path)
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            features[key]["info"] |= {
                "video.codec": stream.codec.canonical_name,
                "video.pix_fmt": stream.pix_fmt,
            }

    for number in {episode["data/file_index"] for episode in episodes}:
        members = [k for k in range(len(lengths)) if min(k, 1) == number]
        index = np.concatenate([np.arange(starts[k], starts[k + 1]) for k in members])
        frame = np.concatenate([np.arange(lengths[k]) for k in members])
        _write(
            root / f"data/chunk-000/file-{number:03d}.parquet",
            {
                "observation.state": [[k, k + 0.5, -k] for k in index.astype(float).tolist()],
                "action": pa.array(
                    [[2.0 * k, 1.0] for k in index.tolist()], pa.list_(pa.float32(), 2)
                ),
                "timestamp": (frame / FPS).astype(np.float32),
                "frame_index": frame,
                "episode_index": np.repeat(members, [lengths[k] for k in members]),
                "index": index,
                "task_index": np.repeat([k % 2 for k in members], [lengths[k] for k in members]),
            },
        )
    columns = {key: [episode[key] for episode in episodes] for key in episodes[0]}
    _write(root / "meta/episodes/chunk-000/file-000.parquet", columns)
    _write_tasks(root / "meta/tasks.parquet")
    info = {
        "codebase_version": "v3.0",
        "robot_type": "none",
        "total_episodes": len(lengths),
        "total_frames": rows,
        "total_tasks": len(TASKS),
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "fps": FPS,
        "splits": {"train": f"0:{len(lengths)}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "features": features,
    }
    (root / "meta/info.json").write_text(json.dumps(info, indent=4))
    (root / "meta/stats.json").write_text("{}")
    (root / "README.md").write_text("a small data set\n")
    return made


def encode(path: Path, numbers: list[int], encoder: str, options: dict[str, str]) -> None:
    """Encode the pictures of one episode; depth, for x265, with 12 bits and without loss."""
    if encoder == "libsvtav1":
        media.watched(_encode, path, numbers, encoder, options)
    else:
        _encode(path, numbers, encoder, options)


def _encode(path: Path, numbers: list[int], encoder: str, options: dict[str, str]) -> None:
    if encoder == "libx265":
        frames = [depth_frame(number) for number in numbers]
        options = {"x265-params": "log-level=none:lossless=1"}
        pix_fmt = "gray12le"
    else:
        frames = [
            av.VideoFrame.from_ndarray(media.picture(number, *SIZE), format="rgb24")
            for number in numbers
        ]
        pix_fmt = "yuv420p"
    with av.open(str(path), "w") as container:
        stream = container.add_stream(encoder, rate=FPS, options=options)
        stream.width, stream.height = SIZE
        stream.pix_fmt = pix_fmt
        stream.codec_context.thread_count = 1
        for k, frame in enumerate(frames):
            frame = frame.reformat(format=pix_fmt)
            frame.pts, frame.time_base = k, Fraction(1, FPS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def depth_codes(number: int) -> np.ndarray:
    """The depth picture [H, W] of a number: codes of 12 bits."""
    width, height = SIZE
    return ((np.arange(width) * 31 + np.arange(height)[:, None] * 7 + number * 5) % 4096).astype(
        np.uint16
    )


def depth_frame(number: int) -> Any:
    """The same as a frame of PyAV."""
    return av.VideoFrame.from_ndarray(depth_codes(number), format="gray12le")


def join(parts: list[Path], path: Path) -> None:
    """Put videos one after the other, copying their packets; the parts are removed."""
    with av.open(str(path), "w", options={"movflags": "faststart"}) as container:
        target: Any = None
        begin = Fraction(0)
        for part in parts:
            with av.open(str(part)) as source:
                stream = source.streams.video[0]
                if target is None:
                    target = container.add_stream_from_template(stream, opaque=True)
                shift = int(begin / stream.time_base)
                frames = 0
                for packet in source.demux(stream):
                    if packet.size == 0:
                        continue
                    packet.pts += shift
                    packet.dts += shift
                    packet.stream = target
                    container.mux(packet)
                    frames += 1
                begin += Fraction(frames, FPS)
    for part in parts:
        part.unlink()


def pyav_frames(path: Path) -> list[np.ndarray]:
    """All frames of a video as PyAV decodes them: RGB [H, W, 3], or depth [H, W]."""
    with av.open(str(path)) as container:
        container.streams.video[0].thread_type = "NONE"
        return [
            frame.to_ndarray(format="gray12le" if frame.format.name == "gray12le" else "rgb24")
            for frame in container.decode(video=0)
        ]


def _features(cameras: list[str]) -> dict[str, Any]:
    scalar = {"shape": [1], "names": None}
    features: dict[str, Any] = {
        "observation.state": {"dtype": "float32", "shape": [3], "names": ["x", "y", "z"]},
        "action": {"dtype": "float32", "shape": [2], "names": None},
        "timestamp": {"dtype": "float32", **scalar},
    }
    for name in ("frame_index", "episode_index", "index", "task_index"):
        features[name] = {"dtype": "int64", **scalar}
    for key in cameras:
        features[key] = {
            "dtype": "video",
            "shape": [SIZE[1], SIZE[0], 1 if key == DEPTH else 3],
            "names": ["height", "width", "channels"],
            "info": {
                "video.fps": FPS,
                "video.height": SIZE[1],
                "video.width": SIZE[0],
                "video.channels": 1 if key == DEPTH else 3,
                "is_depth_map": key == DEPTH,
                "has_audio": False,
            },
        }
    return features


def _write(path: Path, columns: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    at = table.column_names.index("observation.state") if "action" in columns else None
    if at is not None:
        state = table["observation.state"].cast(pa.list_(pa.float32()))
        table = table.set_column(at, "observation.state", state)
    pq.write_table(table, path)


def _write_tasks(path: Path) -> None:
    """The sentences as pandas writes an index named "task"."""
    table = pa.table({"task_index": [0, 1], "task": list(TASKS)})
    pandas = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [
            {
                "name": name,
                "field_name": name,
                "pandas_type": kind,
                "numpy_type": numpy_type,
                "metadata": None,
            }
            for name, kind, numpy_type in (
                ("task_index", "int64", "int64"),
                ("task", "unicode", "object"),
            )
        ],
        "pandas_version": "2.2.0",
    }
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), path)
