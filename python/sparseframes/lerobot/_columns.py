"""Tables of rows as NumPy arrays, where their values are numbers of one shape."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparseframes.lerobot._layout import DatasetError

if TYPE_CHECKING:
    import pyarrow as pa


class Columns:
    """Rows of several Parquet files.

    Numbers are NumPy arrays, with the shape of the feature after that of the rows; a shape of (1,)
    adds no axis. All else stays with Arrow and comes as Python objects.
    """

    def __init__(
        self,
        files: Sequence[Path],
        shapes: dict[str, tuple[int, ...]],
        episodes: Sequence[int] | None,
    ) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        tables = []
        for file in files:
            try:
                table: pa.Table = pq.read_table(file)
            except (OSError, pa.ArrowException) as error:
                raise DatasetError(f"{file}: {error}", file=str(file)) from None
            missing = {"index", "timestamp", "episode_index"} - set(table.column_names)
            if missing:
                raise DatasetError(f"{file}: there is no column {min(missing)}", file=str(file))
            tables.append(table)
        whole = pa.concat_tables(tables, promote_options="default")
        if episodes is not None:
            member = np.isin(whole["episode_index"].to_numpy(), np.array(episodes, np.int64))
            whole = whole.filter(pa.array(member))
        self.count: int = whole.num_rows
        self.arrays: dict[str, NDArray[Any]] = {}
        self.others: dict[str, pa.ChunkedArray] = {}
        for name in whole.column_names:
            array = as_array(whole[name], shapes.get(name))
            if array is None:
                self.others[name] = whole[name]
            else:
                self.arrays[name] = array

    def names(self) -> list[str]:
        """Names of all columns."""
        return [*self.arrays, *self.others]

    def row(self, name: str, row: int) -> Any:
        """One row's value of a column."""
        array = self.arrays.get(name)
        if array is None:
            return self.others[name][row].as_py()
        value = array[row]
        return value.copy() if isinstance(value, np.ndarray) else value

    def rows(self, name: str, rows: Sequence[int]) -> Any:
        """Several rows' values of a column: an array, or a list of objects."""
        array = self.arrays.get(name)
        if array is None:
            return self.others[name].take(list(rows)).to_pylist()
        return array[np.asarray(rows, np.intp)]


def as_array(column: pa.ChunkedArray, shape: tuple[int, ...] | None) -> NDArray[Any] | None:
    """A column as an array [N, ...]; None if it holds no numbers, or rows of several shapes."""
    import pyarrow as pa

    count = len(column)
    values = column.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    while _is_list(values.type):
        if values.null_count:
            return None
        values = values.flatten()
    if values.null_count or not _is_number(values.type):
        return None
    flat: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    if not count:
        return flat.reshape(0)
    if shape is None:
        shape = (len(flat) // count,)
    if shape == (1,):
        shape = ()
    if len(flat) != count * int(np.prod(shape)):
        return None
    return flat.reshape(count, *shape)


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    is_list: bool = (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
    return is_list


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    is_number: bool = (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )
    return is_number
