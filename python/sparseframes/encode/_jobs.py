"""Several encodes at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from sparseframes.errors import SparseError

Item = TypeVar("Item")
Result = TypeVar("Result")

# from one report of the progress to the next
REPORT_SECONDS = 0.2


class _Stopped(Exception):  # noqa: N818 - it is not an error
    """An encode was told to end."""


def side_by_side(
    sizes: Mapping[Item, int],
    encode: Callable[[Item, Callable[[float], None]], Result],
    jobs: int,
    report: Callable[[float, str], object],
    name: Callable[[Item], str] = str,
) -> Generator[tuple[Item, Result | SparseError | OSError], None, None]:
    """Items with their results, or with the errors they failed with, as they are finished.

    An exception, or closing the generator, stops all encodes that run.

    Args:
        sizes: the items in the order in which they are begun, and the bytes of their sources.
        encode: called with an item and with what it is to call with the share done, 0 to 1.
        jobs: items to encode at once.
        report: called now and then with the share done of all, and what is being done.
        name: what to call an item then.
    """
    stopped = threading.Event()
    weights = {item: max(size, 1) for item, size in sizes.items()}
    shares = dict.fromkeys(sizes, 0.0)

    def work(item: Item) -> Result:
        def progress(share: float) -> None:
            if stopped.is_set():
                raise _Stopped
            shares[item] = share

        progress(0.0)
        return encode(item, progress)

    pool = ThreadPoolExecutor(jobs)
    try:
        waiting: dict[Future[Result], Item] = {pool.submit(work, item): item for item in sizes}
        while waiting:
            finished, _ = wait(waiting, timeout=REPORT_SECONDS, return_when=FIRST_COMPLETED)
            for future in finished:
                item = waiting.pop(future)
                shares[item] = 1.0
                try:
                    result = future.result()
                except (SparseError, OSError) as error:
                    yield item, error
                else:
                    yield item, result
            share = sum(shares[item] * weights[item] for item in sizes) / sum(weights.values())
            # in the order of submission: the first is at work
            first = next((name(item) for item in waiting.values()), "")
            report(share, first + (f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""))
    finally:
        stopped.set()
        pool.shutdown(wait=True, cancel_futures=True)
