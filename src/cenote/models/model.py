"""A loaded model: arrays in, arrays out."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from cenote.codegen import jit
from cenote.core.containers import all_tensors, given_back
from cenote.core.errors import ArgumentError, InputError, refusals, shown
from cenote.core.locks import Guard, importing
from cenote.core.types import FLOAT32, Array, Declared
from cenote.kernels.driver import DRIVER
from cenote.models.described import Described
from cenote.models.exporting import WeightsPlace, export, graph_of
from cenote.models.origin import Again, ClosedOrigin, Origin
from cenote.models.values import ValuesOrigin, names_of_values
from cenote.plans.format import StoredModel
from cenote.plans.reader import is_plan_at
from cenote.plans.source import recorded
from cenote.runtime.arrays import same
from cenote.runtime.batches import mapped
from cenote.runtime.inputs import fitting, foreign
from cenote.runtime.signature import Shapes
from cenote.stages.planned import Interface
from cenote.stages.sized import check_kept
from cenote.stages.stage import Shared, Stage

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from cenote.graph.graph import OwnedGraph

_log = logging.getLogger(__name__)
_NO_ORIGIN = Origin()
# Sets of values inside the model that are kept, each with a plan.
_SETS_OF_VALUES = 4


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

    def __init__(self, interface: Interface, shared: Shared, origin: Origin = _NO_ORIGIN) -> None:
        super().__init__(interface, shared, origin)
        self._guard = Guard()
        self._of_values: OrderedDict[tuple[str, ...], Model] = OrderedDict()

    @staticmethod
    def of(origin: Origin, shared: Shared) -> Model:
        """Return the model of an origin: out of the cache, or compiled now if its shapes are fixed."""
        stored = None if origin.entry is None else origin.entry.find(None, shared.threads)
        if stored is not None:
            _log.info("%s: from the cache", origin)
            return Model.from_stored(stored, shared, origin)
        start = time.perf_counter()
        jit.prepare(DRIVER)
        model = Model.from_graph(*origin.imported(), shared, origin)
        _log.info("%s: not in the cache, prepared in %.2f s", origin, time.perf_counter() - start)
        return model

    @staticmethod
    def from_graph(source: OwnedGraph, declared: Interface, shared: Shared, origin: Origin) -> Model:
        """Return the model of a graph, compiled. `declared`: its outputs are those whose type is declared."""
        with importing():
            from cenote.graph.graph import OwnedGraph

        graph = source.take()
        known = {output.name: output for output in declared.outputs}
        outputs = tuple(known.get(name, Declared(name, FLOAT32, None)) for name in graph.outputs)
        model = Model(Interface(graph.inputs, outputs, declared.metadata, declared.about), shared, origin)
        handover = OwnedGraph(graph)
        del graph
        model._plans.compile(handover)
        return model

    @staticmethod
    def from_stored(stored: StoredModel, shared: Shared, origin: Origin) -> Model:
        """Return the model of a plan file or of the cache."""
        model = Model(Interface(stored.inputs, stored.outputs, stored.metadata, stored.about), shared, origin)
        model._plans.take(stored, cache(origin.graph) if origin.has_graph else None)
        return model

    def running(self, shapes: Shapes, stage: Stage) -> Model:
        """Return a model that runs inputs of these shapes by this stage, and shares all else with this one."""
        model = Model(self._plans.interface, self._shared)
        model._stages[shapes] = stage
        return model

    def save(self, path: str | PathLike[str], source: str | PathLike[str] = "") -> None:
        """Write a plan file: the program, the packed weights and the kernels, ready to be mapped by `cenote.load`.

        It holds a plan for each set of input shapes compiled so far (`plan_for`). Where shapes depend on content, it
        holds plans for the shapes of past runs: run such a model before it is saved.

        `source`: path of the model to compile again on another CPU or with another version, recorded with a digest of
        its content and the part of its file that was loaded (`inputs`, `outputs`, `signature`, `format` of
        `cenote.load`).

        Raises UnsupportedError for content that no plan for all sizes can be made for, InputError when nothing has been
        compiled, ArgumentError when `source` is a plan file itself, cannot be read or is not what this model was made
        from, OSError when the file cannot be written, CapacityError where there is not enough memory.
        """
        self._plans.check_open()
        if not self._stages and not self._plans.classes.plans:
            raise InputError("the model has symbolic dimensions: call plan_for(shapes) before saving a plan")
        for stage in self._stages.values():
            check_kept(stage.tail)
        if source and is_plan_at(source):
            raise ArgumentError(
                f"source: {source} is a plan file itself; name the model that it was made from"
            )
        with importing():
            from cenote.plans.writer import write_at

        with refusals(f"a plan file of {len(self._stages)} sets of shapes"):
            stored = self._plans.stored(list(self._plans.own()), self._plans.classes.plans)
            if source:
                stored = replace(stored, source=recorded(source, self._origin.source))
            write_at(path, stored)

    def export(
        self,
        folder: str | PathLike[str],
        target: str,
        *,
        name: str = "",
        shapes: Sequence[Mapping[str, Sequence[int]]] = (),
        weights: WeightsPlace | None = None,
        threads: int | None = None,
        page: Mapping[str, Any] | None = None,
    ) -> list[Path]:
        """Write the model as a library that runs without Python, and return the files.

        folder   where the files go; it is made if need be, and files of the same names are replaced
        target   "x86-64", "x86-64-v3" (AVX2), "x86-64-v4" (AVX-512), "aarch64", "riscv64": NAME.h, libNAME.a,
                 libNAME.so, and what CMake and pkg-config read; "wasm32", "wasm32-relaxed": NAME.wasm, an ES module
                 NAME.mjs that loads it, its TypeScript types, and an npm package
        name     prefix of files and functions; by default the name of the model's file
        shapes   sizes of the inputs by name, a dict for each entry; by default the declared sizes, 1 for an open batch
        weights  "inside" the library, or "beside" it in NAME.bin, which the caller reads; by default beside from 512 MB
                 on; for WebAssembly beside: they are streamed, and modules with relaxed SIMD and without share them
        threads  of WebAssembly, the most that a run may have (1 to 64, default 1); threads of C are the caller's
        page     of wasm32: write one HTML file instead, which shows the model: a picture in, the likeliest classes and
                 the maps of its pooling layers out. A dict with any of "title", "labels" (of classes; by default the
                 file's), "samples" (URLs of pictures), and how pictures become numbers: "size", "crop", "mean",
                 "std", "scale", "layout", "color", as `cenote run` has them

        The model's other options hold (`precision`, `algorithms`, …); the cost model chooses algorithms by the target's
        figures, and denormal numbers are kept. Results have the bits of
        `cenote.load(source, shapes=…, tune="off")` for these sizes where it plans for the same level and caches.

        Raises UnsupportedError for steps that only Python can run (with their names) and for shapes that depend on
        content, InputError for shapes that are missing or wrong and for a model whose graph is not at hand (from a plan
        file or an open file), ArgumentError for an unknown target, OSError where a file cannot be written.
        """
        graph, name = graph_of(self._origin), name or self._origin.name
        return export(
            graph, self._shared.options, folder, target, name, self.metadata, shapes, weights, threads, page
        )

    @property
    def content(self) -> str:
        """Digest of the file that the model was made from; "" where it is not known."""
        source = self._origin.source
        return source.content if source is not None else ""

    def __reduce__(self) -> Again:
        """Return the content of a pickle: the source of the model (the path of its file or plan, or its bytes) and the
        arguments of `cenote.load`, which loads it again. Raises TypeError for a model that was read from an open file
        and for one that is closed."""
        return self._origin.again()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Model:
        return self  # immutable but for its plans, which may be shared

    __copy__ = __deepcopy__

    # ---- running ----------------------------------------------------------------------------------------------

    def __call__(self, *arrays: ArrayLike, **named: ArrayLike) -> Any:
        """Return the outputs for inputs in order or by name: one output as an array, several as a tuple."""
        if not named and len(arrays) == len(self.inputs):
            results, restore = self._run_in_order(arrays)
        else:
            results, restore = self._run(self.signature.named(arrays, named))
        if restore is not same:
            results = [restore(array) for array in results]
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, inputs: Mapping[str, ArrayLike], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Return the outputs by name, as NumPy arrays. `outputs`: names of any values of the model instead.

        Raises InputError for inputs that do not fit the model and for unknown names.
        """
        if outputs is not None:
            return self._giving(outputs).run(inputs)
        if not isinstance(inputs, Mapping):
            raise InputError(f"run takes a dict of arrays by input name, not {type(inputs).__name__}")
        results, _ = self._run(inputs)
        return dict(zip(self.output_names, results, strict=True))

    async def async_run(
        self, inputs: Mapping[str, ArrayLike], outputs: Sequence[str] | None = None
    ) -> dict[str, Array]:
        """Run as `run` does, on a thread of the event loop's executor: `await model.async_run({"x": x})`.

        The loop goes on meanwhile. A run whose task is cancelled computes to its end, and its results are dropped.
        """
        import asyncio  # takes 40 ms; programs that await have imported it

        return await asyncio.to_thread(self.run, inputs, outputs)

    def map(self, items: Iterable[Any], batch: int = 1) -> Iterator[Any]:
        """Yield the results for a stream of inputs, in order, each as a call of the model returns it.

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
        return mapped(items, batch, self.signature.entry, self.run)

    def close(self) -> None:
        """Release plans, weights and memory. Later calls raise InputError; calls in progress end normally. Closing a
        closed model does nothing. `with cenote.load(path) as model:` closes it at the end."""
        self._plans.close()
        self._origin = ClosedOrigin(source=self._origin.source)
        self._of_values.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _giving(self, outputs: Sequence[str]) -> Model:
        """Return the model whose outputs are these values. Raises InputError for a name that no value has."""
        names = names_of_values(outputs)
        with self._guard.lock:
            model = self._of_values.get(names)
            if model is None:
                model = self._of_values[names] = Model.of(ValuesOrigin(self._origin, names), self._shared)
                if len(self._of_values) > _SETS_OF_VALUES:
                    self._of_values.popitem(last=False)
            self._of_values.move_to_end(names)
        return model

    def _run(self, given: Mapping[str, Any]) -> tuple[Sequence[Array], Callable[[Array], Any]]:
        """Return the outputs in order for inputs by name, and the function that makes them the caller's arrays."""
        self.signature.check_names(given)
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
