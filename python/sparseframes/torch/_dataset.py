"""`ClipDataset`: clips of many videos, one an index."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from sparseframes import errors
from sparseframes._decoder import VideoDecoder
from sparseframes._indices import as_index
from sparseframes.errors import ArgumentError
from sparseframes.torch._batch import as_tensors
from sparseframes.torch._indices import clip_indices, regular_starts, span, start_range
from sparseframes.torch._policy import Policy, check_common

Sampling = Literal["random", "regular"]
Clip = dict[str, Any]


class ClipDataset(torch.utils.data.Dataset):  # type: ignore[misc]  # torch is not looked into
    """A map-style data set of clips, for a ``torch.utils.data.DataLoader``.

    Item k is a clip of video ``k // clips_per_video``, as a dictionary: ``frames`` is a uint8
    tensor [T, C, H, W], or [T, H, W, C], in the memory that was decoded into; ``pts_seconds`` is
    float64 [T], ``indices`` int64 [T], and ``video`` the number of the video.

    It can be pickled, and be used in worker processes that are forked or spawned: each opens its
    own decoders. Random clips depend on seed, epoch and the number of the item alone, in whatever
    order and process they are made. With a seed of None they come from torch's global generator,
    which a DataLoader seeds anew in each worker for each epoch.

    Args:
        sources: paths, or what else `VideoDecoder` takes; to be pickled if the data set is.
        num_frames_per_clip: frames T of a clip.
        num_indices_between_frames: from one frame of a clip to the next, 1 for neighbours.
        clips_per_video: clips, and so items, of each video.
        sampling: "random" starts, or "regular" ones, spread evenly over the video.
        sampling_range_start, sampling_range_end, policy: as of
            `sparseframes.torch.clips_at_random_indices`.
        dimension_order: "NCHW" or "NHWC".
        transform: called with ``frames`` of each clip; what it returns stands in its place.
        seed: of random clips; an integer or None.
        max_decoders: decoders that a process keeps open, the last ones used.
        decoder_options: more arguments of `VideoDecoder`, such as threads or index.

    Thread-safety: safe.

    Raises:
        ArgumentError: an argument is not allowed; a ValueError.
    """

    def __init__(
        self,
        sources: Sequence[Any],
        *,
        num_frames_per_clip: int = 16,
        num_indices_between_frames: int = 1,
        clips_per_video: int = 1,
        sampling: Sampling = "random",
        sampling_range_start: int = 0,
        sampling_range_end: int | None = None,
        policy: Policy = "repeat_last",
        dimension_order: Literal["NCHW", "NHWC"] = "NCHW",
        transform: Callable[[torch.Tensor], Any] | None = None,
        seed: int | None = None,
        max_decoders: int = 32,
        decoder_options: dict[str, Any] | None = None,
    ) -> None:
        if sampling not in ("random", "regular"):
            raise ArgumentError(f"sampling must be 'random' or 'regular', not {sampling!r}")
        for name, value in (("clips_per_video", clips_per_video), ("max_decoders", max_decoders)):
            if as_index(value) < 1:
                raise ArgumentError(f"{name} must be positive, not {value}")
        self.sources = list(sources)
        self._frames = as_index(num_frames_per_clip)
        self._step = as_index(num_indices_between_frames)
        self._span = span(self._frames, self._step)
        self._clips_per_video = clips_per_video
        self._sampling = sampling
        self._range = (sampling_range_start, sampling_range_end)
        self._policy: Policy = policy
        self._transform = transform
        self._seed = None if seed is None else as_index(seed)
        self._options = {**(decoder_options or {}), "dimension_order": dimension_order}
        self._decoders = _Decoders(max_decoders)
        # shared with workers that live longer than an epoch
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        return len(self.sources) * self._clips_per_video

    def set_epoch(self, epoch: int) -> None:
        """Choose the random clips of another epoch; workers that live on learn of it, too."""
        self._epoch.fill_(as_index(epoch))

    def __getitem__(self, index: int) -> Clip:
        """One clip; negative numbers count from the end.

        Raises:
            IndexError: there is no such item.
            SparseError: what `VideoDecoder` raises.
        """
        number = as_index(index)
        if not -len(self) <= number < len(self):
            raise errors.IndexError(f"there is no clip {number}: there are {len(self)}")
        number %= len(self)
        video, clip = divmod(number, self._clips_per_video)
        decoder = self._decoders.get(video, lambda: self._open(video))
        count = check_common(decoder, self._frames, self._policy)
        first, end = start_range(count, self._clips_per_video, self._span, *self._range)
        if self._sampling == "regular":
            start = int(regular_starts(first, end, self._clips_per_video)[clip])
        else:
            start = int(torch.randint(first, end, (), generator=self._generator(number)))
        indices = clip_indices(start, self._frames, self._step, count, self._policy)
        batch = decoder.get_frames_at(indices)
        tensors = as_tensors(batch)
        frames = tensors.data if self._transform is None else self._transform(tensors.data)
        return {
            "frames": frames,
            "pts_seconds": tensors.pts_seconds,
            "indices": torch.from_numpy(batch.indices),
            "video": video,
        }

    def _open(self, video: int) -> VideoDecoder:
        return VideoDecoder(self.sources[video], **self._options)

    def _generator(self, number: int) -> torch.Generator | None:
        if self._seed is None:
            return None
        # the tuple's hash is the same in all processes: it holds integers alone
        mixed = hash((self._seed, int(self._epoch), number)) & ((1 << 63) - 1)
        return torch.Generator().manual_seed(mixed)

    def __repr__(self) -> str:
        return f"<ClipDataset: {len(self.sources)} videos, {len(self)} clips of {self._frames}>"


class _Decoders:
    """The decoders of one process, the least recently used of which are given up."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._open: OrderedDict[int, VideoDecoder] = OrderedDict()

    def get(self, key: int, make: Callable[[], VideoDecoder]) -> VideoDecoder:
        if os.getpid() != self._process:
            # the parent's may be in use by its threads, and so may its lock
            self._begin()
        with self._lock:
            decoder = self._open.get(key)
            if decoder is not None:
                self._open.move_to_end(key)
                return decoder
            decoder = self._open[key] = make()
            while len(self._open) > self._most:
                # freed when its last user is done with it
                self._open.popitem(last=False)
            return decoder

    def __reduce__(self) -> tuple[Any, ...]:
        return _Decoders, (self._most,)
