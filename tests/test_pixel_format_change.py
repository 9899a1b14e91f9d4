"""Native planes of frames whose pixel formats differ don't fit into one batch."""

from __future__ import annotations

from pathlib import Path

import av
import media
import pytest

import sparseframes
from sparseframes import VideoDecoder, decode_batch
from sparseframes.validation.reference import digest, pyav_reference

PAIRS = [
    ("yuv420p", "yuv420p10le"),
    ("yuv420p10le", "yuv420p"),
    ("yuv422p", "yuv420p"),
    # as many bytes
    ("yuv420p10le", "yuv444p"),
    ("yuv444p", "yuv420p10le"),
]


def parts(path: Path, encoder: str, formats: tuple[str, str]) -> None:
    """Two sequences of three frames each, one after the other."""
    params = {"x264-params": "keyint=3", "x265-params": "keyint=3:repeat-headers=1"}
    data = b""
    for pix_fmt in formats:
        part = path.with_name(f"{pix_fmt}{path.suffix}")
        key = f"{encoder[3:]}-params"
        media.encode(part, encoder, numbers=range(3), pix_fmt=pix_fmt, **{key: params[key]})
        data += part.read_bytes()
    path.write_bytes(data)


@pytest.mark.parametrize("formats", PAIRS, ids="-".join)
@pytest.mark.parametrize(("encoder", "suffix"), [("libx264", "264"), ("libx265", "hevc")])
def test_batches(encoder: str, suffix: str, formats: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    parts(path, encoder, formats)
    with av.open(str(path)) as container:
        found = [frame.format.name for frame in container.decode(video=0)]
    assert found == [formats[0]] * 3 + [formats[1]] * 3
    expected = pyav_reference(str(path)).digests
    with VideoDecoder(path, pixel_format="native") as decoder:
        for k in range(6):
            assert digest(list(decoder[k])) == expected[k]
        # all of one format are as before, also when a batch has items of both
        batches = decode_batch([(decoder, [0, 2]), (decoder, [3, 5])])
        for data, first in zip(batches, (0, 3), strict=True):
            got = [digest([plane[i] for plane in data]) for i in range(2)]
            assert got == [expected[first], expected[first + 2]]
        for indices in ([2, 3], [3, 2], [0, 1, 5], [5, 0]):
            # what no longer fits may be noticed by its size first
            with pytest.raises((sparseframes.UnsupportedError, sparseframes.ArgumentError)):
                decoder.get_frames_at(indices)
            with pytest.raises((sparseframes.UnsupportedError, sparseframes.ArgumentError)):
                decode_batch([(decoder, [0]), (decoder, indices)])
    # RGB has one form for all
    with VideoDecoder(path) as decoder:
        batch = decoder.get_frames_at([4, 1]).data
        assert (batch[0] == decoder[4]).all()
        assert (batch[1] == decoder[1]).all()
