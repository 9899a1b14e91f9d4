"""Clips of frames as torch tensors. Needs torch; nothing else of this package imports it.

`ClipDataset` is a map-style data set of clips, and the ``clips_at_...`` functions are torchcodec's
samplers. The tensors are the memory that the frames were decoded into, not copies of it.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401 - tell of it in words
except ModuleNotFoundError as error:
    raise ImportError(
        f"sparseframes.torch needs torch: pip install 'sparseframes[torch]' ({error})"
    ) from None

from sparseframes.torch._batch import FrameBatch, as_tensors
from sparseframes.torch._dataset import ClipDataset
from sparseframes.torch._indices import clips_at_random_indices, clips_at_regular_indices
from sparseframes.torch._timestamps import clips_at_random_timestamps, clips_at_regular_timestamps

__all__ = [
    "ClipDataset",
    "FrameBatch",
    "as_tensors",
    "clips_at_random_indices",
    "clips_at_random_timestamps",
    "clips_at_regular_indices",
    "clips_at_regular_timestamps",
]
