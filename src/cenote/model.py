"""A loaded model: arrays in, arrays out.

A model keeps its graph as the file gave it, and a stage (a compiled program) for every set of input shapes it has seen:
a new batch size or picture size needs a new plan, not new kernels. Where a shape depends on the content of a value that
only a run computes, a stage is followed by others, compiled when that content is known, and kept as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from cenote.core.containers import all_tensors, given_back
from cenote.core.errors import ArgumentError, InputError, refusals, shown
from cenote.core.locks import importing
from cenote.core.types import FLOAT32, Array, Declared, TensorType
from cenote.described import Described
from cenote.plans import reader
from cenote.plans.cache import CacheEntry
from cenote.plans.format import Classes, Pattern, SizedPlan, StoredModel, StoredPlan, Tail, is_plan_at
from cenote.runtime.arrays import same
from cenote.runtime.batches import mapped
from cenote.runtime.bounds import narrowed
from cenote.runtime.inputs import fitting, foreign
from cenote.runtime.signature import Shapes, Signature
from cenote.runtime.threads import resolve_threads
from cenote.sized import check_kept, compile_class, part_of, supply
from cenote.stage import Options, Stage, Stages, no_changes, no_plan_for, no_values

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from cenote.compiler.compile import Plan
    from cenote.graph.graph import Graph, OwnedGraph
    from cenote.plans.later import Later


class Model(Described):
    """A model ready to run, made by `cenote.load`. Safe to call from several threads at once.

    Call it with arrays in the order of `inputs`, or by name; `run` takes and gives dicts. Inputs must have the declared
    dtype (no silent cast); memory order, byte order and writability do not matter. Numbers and nested lists of numbers
    become arrays of that dtype where they are of its kind (no float for an integer). Outputs are fresh NumPy arrays,
    or, when called with arrays of another library (anything with DLPack), arrays of that library.
    """

    def __init__(
        self,
        inputs: Sequence[Declared],
        outputs: Sequence[Declared],
        metadata: Mapping[str, str],
        options: Options,
        cache_entry: CacheEntry | None = None,
    ) -> None:
        inputs, bounds = narrowed(inputs, options.shapes)
        self.inputs: tuple[Declared, ...] = inputs
        self.output_names: tuple[str, ...] = tuple(declared.name for declared in outputs)
        self._declared_outputs = tuple(outputs)
        self.metadata = dict(metadata)
        self._options = options
        options.submodel = self._submodel
        self._cache_entry = cache_entry
        # Digests of the model that this one was made from, and of its files of weights, where they are known.
        self._origin = None if cache_entry is None else (cache_entry.content, cache_entry.external)
        self._source: Callable[[], Graph] | None = None  # of a model with symbolic dimensions: its graph
        self._unwritten: Later | None = None  # a plan, written after the next answer
        self._stages = Stages()
        self._signature = Signature(inputs, bounds)
        self._classes = Classes()
        self._of_values: Callable[[Sequence[str]], Model] = no_values  # the model that gives other values
        self._changed: Callable[..., Model] = no_changes  # the model under other options

    @staticmethod
    def from_graph(
        source: OwnedGraph,
        outputs: Mapping[str, Declared],
        metadata: Mapping[str, str],
        options: Options,
        cache_entry: CacheEntry | None = None,
    ) -> Model:
        """A model out of an imported graph, compiled now if its shapes are fixed.

        `outputs`: those whose type is declared, by name; `cache_entry`: the plan cache's place.
        """
        with importing():
            from cenote.graph.graph import OwnedGraph

        graph = source.take()
        made = [outputs.get(name, Declared(name, FLOAT32, None)) for name in graph.outputs]
        model = Model(graph.inputs, made, metadata, options, cache_entry)
        known = model._signature.static_shapes()
        if known is None:
            whole = graph
            model._source = lambda: whole  # other shapes will need the weights again
            model._keep()
            model._reserve()
            return model
        handover = OwnedGraph(graph)
        del graph
        model._stages[known] = Stage.compile(handover, model._signature.types(known), options)
        model._stages[known].plan.program.prepare()
        model._keep()
        return model

    @staticmethod
    def from_stored(
        stored: StoredModel,
        options: Options,
        cache_entry: CacheEntry | None = None,
        source: Callable[[], Graph] | None = None,
    ) -> Model:
        """A model out of a plan file or the cache. `source` gives the graph for shapes that it has no plan for."""
        model = Model(stored.inputs, stored.outputs, stored.metadata, options, cache_entry)
        model._source = source
        model._classes.plans.extend(stored.sized)
        tails = [*((pattern, sized.tail) for pattern, sized in stored.sized), *stored.tails.items()]
        for pattern, tail in tails:
            if source is not None and tail is not None:
                supply(tail, part_of(source, model._signature, pattern))
        for shapes, plan in stored.plans.items():
            model._adopt(shapes, plan, stored.tails.get(shapes))
        model._reserve()
        return model

    def _reserve(self) -> None:
        """Take the memory for the largest sizes, where the caller said which they are."""
        if largest := self._signature.largest():
            self._stage(largest).reserve()

    @staticmethod
    def from_plan_file(
        path: str | PathLike[str],
        threads: int | None,
        denormals: str | None = None,
        shapes: Mapping[str, Any] | None = None,
    ) -> Model:
        """A model out of a plan file; errors as `reader.read`."""
        count = resolve_threads(threads)
        stored = reader.read(path, count)
        options = Options(count, stored.precision, stored.weights, denormals=denormals, shapes=shapes)
        model = Model.from_stored(stored, options)
        model._origin = (stored.content, stored.external) if stored.content else None
        # Memory and outputs' types are there before the first run.
        for _, sized in reversed(stored.sized if shapes is None else ()):
            model._stage(sized.made_with)
        return model

    def save(self, path: str | PathLike[str], source: str | PathLike[str] = "") -> None:
        """Write a plan file: the program, the packed weights and the kernels, ready to be mapped by `cenote.load`.

        Holds a plan for each set of input shapes compiled so far (`plan_for`), and where shapes depend on content those
        for what runs have found: run such a model before it is saved. `source` is recorded as the model to compile
        again when the file meets another CPU or version, with a digest of its content. Raises UnsupportedError for a
        content that no plan for all sizes can be made for, InputError when nothing has been compiled, ArgumentError
        when `source` is a plan file itself, cannot be read or is not what this model was made from, OSError when the
        file cannot be written, CapacityError where there is not enough memory.
        """
        if source and is_plan_at(source):
            raise ArgumentError(
                f"source: {source} is a plan file itself; name the model that it was made from"
            )
        if not self._stages and not self._classes.plans:
            raise InputError("the model has symbolic dimensions: call plan_for(shapes) before saving a plan")
        for stage in self._stages.values():
            check_kept(stage.tail)
        with importing():
            from cenote.plans import writer
            from cenote.plans.source import with_source

        with refusals(f"a plan file of {len(self._stages)} sets of shapes"):
            stored = self._stored(list(self._own_stages()), self._classes.plans)
            writer.save(path, with_source(stored, source, self._origin) if source else stored)

    def _stored(self, shapes: Sequence[Any], sized: Sequence[tuple[Pattern, SizedPlan]]) -> StoredModel:
        """The model and its plans for these shapes and for classes of sizes, to be written down."""
        return StoredModel(
            self.inputs,
            self._declared_outputs,
            self.metadata,
            self._options.precision,
            self._options.weights,
            {key: self._stages[key].plan for key in shapes},
            sized,
            {key: tail for key in shapes if (tail := self._stages[key].tail) is not None},
        )

    def _keep(self, shapes: Shapes | None = None) -> None:
        """Have the plan for these shapes put into the cache, after the answer; None: all that there is on loading."""
        if self._cache_entry is None:
            return
        whole = shapes is None and self._signature.static_shapes() is not None
        wanted = [key for key in self._own_stages() if whole or key == shapes]
        stored = self._stored(wanted, () if shapes is not None else tuple(self._classes.plans))
        self._unwritten = self._cache_entry.keep(shapes, stored)

    def _own_stages(self) -> Mapping[Any, Stage]:
        """The stages that were compiled for their shapes alone."""
        return {key: stage for key, stage in self._stages.items() if stage.plan.program.workplaces is None}

    def _adopt(self, shapes: Shapes, plan: Plan | StoredPlan, tail: Tail | None = None) -> Stage:
        """A stage of a plan that was read."""
        outputs = self.output_names if tail is None else tail.cut.made
        stage = Stage(plan, [*self._signature.by_name], outputs, self._options, tail)
        stage.plan.program.prepare()
        self._stages[shapes] = stage
        return stage

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a cenote.Model cannot be pickled: it holds machine code and threads. Load it in every process; from a "
            "plan file (Model.save) that takes milliseconds, and the processes share its weights"
        )

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
            stage = self._stage(key)
        elif len(self._stages) > 1:
            with contextlib.suppress(KeyError):  # another thread may just have dropped it
                self._stages.move_to_end(key)
        tail = stage.tail
        results = stage.plan.program.run(arrays) if tail is None else self._run_in_stages(stage, arrays)
        if (unwritten := self._unwritten) is not None:
            self._unwritten = None
            unwritten.release()
        if tail is not None and not all_tensors(results):
            return [given_back(array) for array in results], same
        return results, restore

    def _run_in_stages(self, stage: Stage, arrays: Sequence[Array]) -> list[Array]:
        """The outputs in order, as values of graphs: sequences are packed."""
        with refusals("a run in stages"):
            results = stage.run(dict(zip(self._signature.by_name, arrays, strict=True)))
            if self._options.changed:
                with self._options.guard.lock:
                    self._options.changed = False
                    self._keep()
        return [results[name] for name in self.output_names]

    def _submodel(self, graph: Graph) -> Callable[[Sequence[Array]], Sequence[Array]]:
        """Runs a graph inside of this model, which is compiled when it first runs: arrays that fit, in order."""
        made = [Declared(name, FLOAT32, None) for name in graph.outputs]
        model = Model(graph.inputs, made, {}, self._options.inside())
        model._source = lambda: graph
        stages = model._stages

        def run(arrays: Sequence[Array]) -> list[Array]:
            key = tuple([x.shape for x in arrays])
            stage = stages.get(key) or model._stage(key)
            if stage.tail is None:  # a short body is run thousands of times: straight to its program
                return stage.plan.program.run(arrays)
            return model._run_in_stages(stage, arrays)

        return run

    def _stage(self, shapes: Shapes) -> Stage:
        with refusals("a plan for new shapes"), self._options.guard.lock:
            found = self._stages.get(shapes)
            if found is not None:
                self._stages.move_to_end(shapes)
                return found
            types = self._signature.types(shapes)
            return self._stages.get_or_make(shapes, lambda: self._new_stage(shapes, types))

    def _new_stage(self, shapes: Shapes, types: Mapping[str, TensorType]) -> Stage:
        """A stage for shapes that this model has not seen: out of the cache, or compiled."""
        pattern, numbers = self._signature.dimensions(shapes)
        found = self._classes.find(pattern, numbers, self._options.workplaces)
        if found is not None:
            return Stage.of_class(found, numbers, self._options)
        stored = None if self._cache_entry is None else self._cache_entry.find(shapes, self.threads)
        if stored is not None and shapes in stored.plans:
            tail = stored.tails.get(shapes)
            if tail is not None and self._source is not None:
                supply(tail, part_of(self._source, self._signature, shapes))
            return self._adopt(shapes, stored.plans[shapes], tail)
        if self._source is not None:
            part = part_of(self._source, self._signature, pattern)
            found = compile_class(self._classes, pattern, numbers, part, self._options)
            if found is not None:
                self._keep()
                return Stage.of_class(found, numbers, self._options)
        if self._source is None:
            raise no_plan_for(self._stages)
        with importing():
            from cenote.graph.graph import OwnedGraph

        stage = self._stages[shapes] = Stage.compile(OwnedGraph(self._source()), types, self._options)
        self._classes.failed.add(pattern)  # nothing was wrong with these sizes: others will not be tried
        self._keep(shapes)
        return stage
