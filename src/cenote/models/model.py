"""A loaded model: arrays in, arrays out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from cenote.core.containers import all_tensors, given_back
from cenote.core.errors import ArgumentError, InputError, refusals, shown
from cenote.core.load_options import LoadOptions
from cenote.core.locks import importing
from cenote.core.types import FLOAT32, Array, Declared
from cenote.models.described import Described
from cenote.plans import reader
from cenote.plans.cache import CacheEntry
from cenote.plans.format import StoredModel, is_plan_at
from cenote.runtime.arrays import same
from cenote.runtime.batches import mapped
from cenote.runtime.bounds import narrowed
from cenote.runtime.inputs import fitting, foreign
from cenote.runtime.signature import Signature
from cenote.runtime.threads import resolve_threads
from cenote.stages.planned import Interface, Planned
from cenote.stages.sized import check_kept
from cenote.stages.stage import Shared, closed, no_changes, no_values

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from cenote.graph.graph import Graph, OwnedGraph

Again = tuple[Callable[..., "Model"], tuple[Any, ...]]
"""What loads a model again, in another process: a function and its arguments."""


class Model(Described):
    """A model ready to run, made by `cenote.load`. Safe to call from several threads at once.

    Call it with arrays in the order of `inputs`, or by name; `run` takes and gives dicts. Inputs must have the declared
    dtype (no silent cast); memory order, byte order and writability do not matter. Numbers and nested lists of numbers
    become arrays of that dtype where they are of its kind (no float for an integer). Outputs are fresh NumPy arrays,
    or, when called with arrays of another library (anything with DLPack), arrays of that library.

    `inputs`, `declared_outputs`: name, dtype, shape as the model declares them; `metadata`: its file's own key-value
    pairs; `about`: what the file says about itself ("producer_name", "graph_name", "version", …), as far as it does.
    A model can be pickled, and is a context manager that closes it.
    """

    def __init__(self, interface: Interface, shared: Shared, cache_entry: CacheEntry | None = None) -> None:
        inputs, bounds = narrowed(interface.inputs, shared.options.shapes)
        self.inputs: tuple[Declared, ...] = inputs
        self.declared_outputs = interface.outputs
        self.output_names = interface.output_names
        self.metadata = dict(interface.metadata)
        self.about = dict(interface.about)
        self._shared = shared
        self._signature = Signature(inputs, bounds)
        interface = Interface(inputs, interface.outputs, self.metadata, self.about)
        self._plans = Planned(interface, self._signature, shared, cache_entry)
        self._stages, self._classes = self._plans.by_shapes, self._plans.classes
        # Digests of the model that this one was made from, and of its files of weights, where they are known.
        self._origin = None if cache_entry is None else (cache_entry.content, cache_entry.external)
        self._of_values: Callable[[Sequence[str]], Model] = no_values  # the model that gives other values
        self._again: Again | str = "it was not made by cenote.load"  # or why it cannot be loaded again
        self._changed: Callable[..., Model] = no_changes  # the model under other options

    @staticmethod
    def from_graph(
        source: OwnedGraph,
        interface: Interface,
        shared: Shared,
        cache_entry: CacheEntry | None = None,
    ) -> Model:
        """A model out of an imported graph, compiled now if its shapes are fixed.

        `interface`: its outputs are those whose type is declared; `cache_entry`: the plan cache's place.
        """
        with importing():
            from cenote.graph.graph import OwnedGraph

        graph = source.take()
        declared = {output.name: output for output in interface.outputs}
        made = tuple(declared.get(name, Declared(name, FLOAT32, None)) for name in graph.outputs)
        interface = Interface(graph.inputs, made, interface.metadata, interface.about)
        model = Model(interface, shared, cache_entry)
        handover = OwnedGraph(graph)
        del graph
        model._plans.compile(handover)
        return model

    @staticmethod
    def from_stored(
        stored: StoredModel,
        shared: Shared,
        cache_entry: CacheEntry | None = None,
        source: Callable[[], Graph] | None = None,
    ) -> Model:
        """A model out of a plan file or the cache. `source` gives the graph for shapes that it has no plan for."""
        interface = Interface(stored.inputs, stored.outputs, stored.metadata, stored.about)
        model = Model(interface, shared, cache_entry)
        model._plans.take(stored, source)
        return model

    @staticmethod
    def from_plan_file(path: str | PathLike[str], options: LoadOptions) -> Model:
        """A model out of a plan file; errors as `reader.read`."""
        stored = reader.read(path, resolve_threads(options.threads))
        shared = Shared(options.of_plan(stored.options.record()))
        model = Model.from_stored(stored, shared)
        model._origin = (stored.content, stored.external) if stored.content else None
        # Memory and outputs' types are there before the first run.
        for _, sized in reversed(() if options.shapes else stored.sized):
            model._plans.at(sized.made_with)
        return model

    def save(self, path: str | PathLike[str], source: str | PathLike[str] = "") -> None:
        """Write a plan file: the program, the packed weights and the kernels, ready to be mapped by `cenote.load`.

        Holds a plan for each set of input shapes compiled so far (`plan_for`), and where shapes depend on content those
        for what runs have found: run such a model before it is saved. `source` is recorded as the model to compile
        again when the file meets another CPU or version, with a digest of its content; not for a model between values
        of its file (`inputs`, `outputs`, `signature`, `format` of `cenote.load`). Raises UnsupportedError for a
        content that no plan for all sizes can be made for, InputError when nothing has been compiled, ArgumentError
        when `source` is a plan file itself, cannot be read or is not what this model was made from, OSError when the
        file cannot be written, CapacityError where there is not enough memory.
        """
        self._plans.check_open()
        if source and is_plan_at(source):
            raise ArgumentError(
                f"source: {source} is a plan file itself; name the model that it was made from"
            )
        if not self._stages and not self._plans.classes.plans:
            raise InputError("the model has symbolic dimensions: call plan_for(shapes) before saving a plan")
        for stage in self._stages.values():
            check_kept(stage.tail)
        with importing():
            from cenote.plans import writer
            from cenote.plans.source import with_source

        with refusals(f"a plan file of {len(self._stages)} sets of shapes"):
            stored = self._plans.stored(list(self._plans.own()), self._plans.classes.plans)
            writer.save(
                path,
                with_source(stored, source, self._origin)
                if source and self._shared.options.whole
                else stored,
            )

    @property
    def content(self) -> str:
        """Digest of the file that the model was made from; "" where it is not known."""
        return self._origin[0] if self._origin else ""

    def __reduce__(self) -> Again:
        """A pickle holds what the model was loaded from (the path of its file or plan, or its bytes) and the arguments
        of `cenote.load`, and loads it again. Raises TypeError where that is not at hand: an open file was read, the
        model is closed."""
        if isinstance(self._again, str):
            raise TypeError(f"this cenote.Model cannot be pickled: {self._again}")
        return self._again

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Model:
        return self  # immutable but for its plans, which may be shared

    __copy__ = __deepcopy__

    # ---- running ----------------------------------------------------------------------------------------------

    def __call__(self, *arrays: ArrayLike, **named: ArrayLike) -> Any:
        """Outputs for inputs given in order or by name: one output as an array, several as a tuple."""
        if not named and len(arrays) == len(self.inputs):
            results, restore = self._run_in_order(arrays)
        else:
            results, restore = self._run(self._signature.named(arrays, named))
        if restore is not same:
            results = [restore(array) for array in results]
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, inputs: Mapping[str, ArrayLike], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Outputs by name, as NumPy arrays. `outputs`: any values of the model instead; InputError for other names."""
        if outputs is not None:
            return self._of_values(outputs).run(inputs)
        if not isinstance(inputs, Mapping):
            raise InputError(f"run takes a dict of arrays by input name, not {type(inputs).__name__}")
        results, _ = self._run(inputs)
        return dict(zip(self.output_names, results, strict=True))

    async def async_run(
        self, inputs: Mapping[str, ArrayLike], outputs: Sequence[str] | None = None
    ) -> dict[str, Array]:
        """As `run`, on a thread of the event loop's executor: `await model.async_run({"x": x})`.

        The loop goes on meanwhile. A run whose task is cancelled computes to its end; nobody gets its results.
        """
        import asyncio  # 40 ms that others need not spend; who awaits has it

        return await asyncio.to_thread(self.run, inputs, outputs)

    def map(self, items: Iterable[Any], batch: int = 1) -> Iterator[Any]:
        """The results for a stream of inputs, in order, each as calling the model gives it.

            for image, scores in zip(images, model.map(load_pictures(images), batch=8)):

        An item is an array, or, for a model of several inputs, a tuple of arrays in order or a dict by name. It may
        leave out the batch axis (one axis less than the model declares); its result has none either. A background
        thread draws from `items` (at most two batches ahead) and joins up to `batch` of them along the first axis while
        the model computes; the last batch is smaller, and items whose other axes differ are not joined. With `batch`
        above 1 the model's batch axis must be symbolic, and the first axis of each output must be the batch.

        What `items` raises is raised here after the results of the items before; so are InputError for an item that
        does not fit the model, ShapeError for an output that cannot be divided, and at once ArgumentError for a bad
        `batch`. Closing the generator (or dropping it) stops the drawing.
        """
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            raise ArgumentError(f"batch: {shown(batch)} is not a whole number from 1 on")
        return mapped(items, batch, self._signature.entry, self.run)

    def close(self) -> None:
        """Let go of plans, weights and memory. Calls raise InputError from now on; those under way end as they would
        have. Closing a model again does nothing. `with cenote.load(path) as model:` closes it at the end."""
        self._plans.close()
        self._again = "it is closed"
        self._of_values = self._changed = (
            closed  # they held the source, which may be all the bytes of the model
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, given: Mapping[str, Any]) -> tuple[Sequence[Array], Callable[[Array], Any]]:
        """The outputs in order, for inputs by name, and what makes them the caller's kind of array."""
        self._signature.check_names(given)
        return self._run_in_order([given[declared.name] for declared in self.inputs])

    def _run_in_order(self, given: Sequence[Any]) -> tuple[Sequence[Array], Callable[[Array], Any]]:
        arrays: list[Array] = []
        restore: Callable[[Array], Any] = same
        for declared, array in zip(self.inputs, given, strict=True):
            if type(array) is not np.ndarray:
                array, back = foreign(array, declared)
                restore = restore if back is same else back
            arrays.append(fitting(array, declared))
        stage = self._stages.get(key := tuple([array.shape for array in arrays]))
        if stage is None:
            stage = self._plans.at(key)
        elif len(self._stages) > 1:
            with contextlib.suppress(KeyError):  # another thread may just have dropped it
                self._stages.move_to_end(key)
        tail = stage.tail
        results = stage.plan.program.run(arrays) if tail is None else self._plans.run(stage, arrays)
        if self._plans.unwritten is not None:
            self._plans.answered()
        if tail is not None and not all_tensors(results):
            return [given_back(array) for array in results], same
        return results, restore
