"""Streams of inputs: read ahead of their use, and grouped into batches."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import CapacityError, ShapeError
from cenote.core.types import Array
from cenote.runtime.arrays import Restore

T = TypeVar("T")


def ahead(items: Iterable[T], depth: int = 2) -> Generator[T, None, None]:
    """Yield the items, in order, read by a background thread that is at most `depth` items ahead of the reader.

    An exception from `items` is raised here, after the items before it. Closing the generator ends the thread as soon
    as the item that it is reading is there (nobody waits for that), and closes `items` if it is a generator.
    """
    drawn: SimpleQueue[tuple[str, Any]] = SimpleQueue()
    room, stopped = threading.Semaphore(depth), threading.Event()

    def draw() -> None:
        try:
            iterator = iter(items)
            while room.acquire() and not stopped.is_set():
                drawn.put(("item", next(iterator)))
        except StopIteration:
            drawn.put(("end", None))
        except BaseException as error:
            drawn.put(("error", error))
        finally:
            if isinstance(items, Generator):
                items.close()

    try:
        threading.Thread(target=draw, name="cenote-inputs", daemon=True).start()
    except RuntimeError as error:
        raise CapacityError(f"the system has no thread left to draw inputs with: {error}") from error
    try:
        while (entry := drawn.get())[0] == "item":
            room.release()
            yield entry[1]
        if entry[0] == "error":
            raise entry[1]
    finally:
        stopped.set()
        room.release()


@dataclass
class Entry:
    """One item of a stream as arrays by input name. `single`: the arrays have no batch axis."""

    arrays: Mapping[str, Array]
    single: bool
    restore: Restore

    @property
    def kind(self) -> tuple[Any, ...]:
        """Key that is equal for items that can be in one batch."""
        return self.single, tuple(
            (n, x.shape[not self.single :], x.dtype.str) for n, x in self.arrays.items()
        )

    @property
    def rows(self) -> int:
        """Size of the item along the batch axis."""
        return 1 if self.single else max((x.shape[0] for x in self.arrays.values()), default=1)


@dataclass
class Batch:
    """Items that run together."""

    entries: list[Entry] = field(default_factory=list)

    def inputs(self) -> dict[str, Array]:
        """Concatenate the items' arrays; those of a single item stay as they are."""
        first = self.entries[0]
        if len(self.entries) == 1 and not first.single:
            return dict(first.arrays)
        join = np.stack if first.single else np.concatenate
        return {name: join([entry.arrays[name] for entry in self.entries]) for name in first.arrays}

    def parts(self, outputs: Mapping[str, Array]) -> Iterator[list[Any]]:
        """Yield each item's own outputs. Raises ShapeError for an output whose first axis is not the batch."""
        if len(self.entries) == 1 and not self.entries[0].single:
            yield [self.entries[0].restore(y) for y in outputs.values()]
            return
        total, start = sum(entry.rows for entry in self.entries), 0
        for name, y in outputs.items():
            if y.ndim == 0 or y.shape[0] != total:
                raise ShapeError(
                    f"output '{name}' has shape {list(y.shape)} for a batch of {total}: its first axis is not the "
                    "batch, so it cannot be divided among the items; use batch=1 and items with a batch axis"
                )
        for entry in self.entries:
            rows = slice(start, start + entry.rows)
            start += entry.rows
            yield [entry.restore(y[start - 1] if entry.single else y[rows]) for y in outputs.values()]


def batches(
    items: Iterable[Any], size: int, read: Callable[[Any], Entry]
) -> Iterator[tuple[Batch, dict[str, Array]]]:
    """Yield groups of up to `size` neighbours that fit together, with their joined inputs.

    An item of another shape or type than its neighbours starts a batch of its own. When an item cannot be obtained or
    read, those before it still come, then the error.
    """
    held: list[Entry] = []
    failure: BaseException | None = None
    iterator = iter(items)
    while True:
        try:
            entry = read(next(iterator))
        except StopIteration:
            break
        except Exception as error:
            failure = error
            break
        if held and entry.kind != held[0].kind:
            yield _joined(held)
            held = []
        held.append(entry)
        if len(held) == size:
            yield _joined(held)
            held = []
    if held:
        yield _joined(held)
    if failure is not None:
        raise failure


def _joined(entries: Sequence[Entry]) -> tuple[Batch, dict[str, Array]]:
    batch = Batch(list(entries))
    return batch, batch.inputs()


def mapped(
    items: Iterable[Any],
    batch: int,
    entry: Callable[[Any], Entry],
    run: Callable[[Mapping[str, Any]], dict[str, Array]],
) -> Iterator[Any]:
    """Yield the results of `run` for each item of a stream, in order: outputs by name for inputs by name,
    in batches."""
    stream = ahead(batches(items, batch, entry))
    with contextlib.closing(stream):
        for group, inputs in stream:
            for results in group.parts(run(inputs)):
                yield results[0] if len(results) == 1 else tuple(results)
