"""Planning for another machine: a model's graph to an exported program. No kernel is compiled for this machine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cenote.codegen.builder import Kernel
from cenote.codegen.emission import emitted
from cenote.compiler.compile import Compilation, Plan, compile_foreign
from cenote.compiler.constants import ConstantPool
from cenote.core.errors import InputError, UnsupportedError
from cenote.core.load_options import LoadOptions
from cenote.core.types import Array
from cenote.export.program import ExportedProgram, NamedTensor, ProgramEntry
from cenote.export.targets import is_wasm, target_named
from cenote.graph.graph import Graph, OwnedGraph
from cenote.kernels.base import KernelSpec, Preparation, word_of
from cenote.passes.specialize import specialize
from cenote.runtime.bounds import narrowed
from cenote.runtime.signature import Shapes, Signature
from cenote.runtime.steps import HostStep, KernelStep, Slot, SlotKind

_MOST_NAMED = 5  # host steps that an error names


class Exporter:
    """Planner of the entries of one model, which share weights and kernels."""

    def __init__(self, graph: Graph, options: LoadOptions, target: str) -> None:
        self.graph, self.target_name, self.target = graph, target, target_named(target)
        self.signature = Signature(narrowed(graph.inputs, options.shapes)[0])
        # A library for C has its constants in its file, and no moment at which it is loaded.
        self._pool = ConstantPool(keep_preparations=is_wasm(self.target))
        self._how = Compilation(options, self._pool, None, self.target)
        self._kernels: dict[str, Kernel] = {}
        self._constants: list[Array] = []
        self._numbers: dict[int, int] = {}  # of constants, by the id of the pool's array
        self._preparation: dict[int, KernelStep] = {}  # by the numbers of the constants that they make

    def program(
        self, name: str, about: Mapping[str, str], shapes: Sequence[Mapping[str, Sequence[int]]]
    ) -> ExportedProgram:
        """Return the program of entries for these shapes of inputs; for the declared ones if there are none.

        Raises UnsupportedError for what only Python can compute, InputError where shapes are missing.
        """
        entries = tuple(self._entry(each) for each in self._shapes(shapes))
        return ExportedProgram(
            identifier(name),
            name,
            self.target_name,
            self.target,
            entries,
            self._kernels,
            self._constants,
            about,
            tuple(self._preparation.values()),
            frozenset(self._preparation),
        )

    def _shapes(self, given: Sequence[Mapping[str, Sequence[int]]]) -> list[Shapes]:
        """Return the shapes of all inputs, a set for each entry."""
        return [*dict.fromkeys(self.signature.shapes(self._complete(each)) for each in given or [{}])]

    def _complete(self, given: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
        """Return a shape for every input: the given one, else the declared one, with 1 for an open first axis.
        Raises InputError where another axis is open."""
        shapes = dict(given)
        for declared in self.signature.inputs:
            if declared.name in shapes:
                continue
            extents: list[int | str | None] = [None] if declared.shape is None else [*declared.shape]
            if extents and not isinstance(extents[0], int):
                extents[0] = 1
            fixed = [extent for extent in extents if isinstance(extent, int)]
            if declared.shape is None or len(fixed) < len(extents):
                example = ",".join(str(extent) if isinstance(extent, int) else "SIZE" for extent in extents)
                raise InputError(
                    f"the model takes {declared}, and what is exported has fixed sizes: give a shape for the input, "
                    f"on the command line by --shape {declared.name}={example} (several times: an entry for each)"
                )
            shapes[declared.name] = fixed
        return shapes

    def _entry(self, shapes: Shapes) -> ProgramEntry:
        types = self.signature.types(shapes)
        specialized = specialize(self.graph, types)
        if specialized.rest is not None:
            raise UnsupportedError(
                "shapes depend on the content of values, so that the model cannot become one program of fixed sizes; "
                "export the part before (outputs=), and compute the rest in the program that calls it"
            )
        graph = specialized.graph
        names = [declared.name for declared in graph.inputs]
        outputs = tuple(graph.outputs)
        plan, kernels = compile_foreign(OwnedGraph(graph), self._how)
        self._check(plan)
        for symbol, spec in kernels.items():
            self._add_kernel(symbol, spec)
        numbers = [self._number(array) for array in plan.program.constants]
        steps = tuple(
            _renumbered(step, numbers) for step in plan.program.steps if isinstance(step, KernelStep)
        )
        return ProgramEntry(
            tuple(map(NamedTensor, names, plan.program.inputs)),
            tuple(map(NamedTensor, outputs, plan.program.outputs)),
            steps,
            plan.program.arena_bytes,
            plan.program.scratch_bytes,
        )

    def _check(self, plan: Plan) -> None:
        """Raise UnsupportedError for steps that only Python can run, and for values that are no arrays of numbers."""
        labels = [step.where or step.label for step in plan.program.steps if isinstance(step, HostStep)]
        if labels:
            rest = f" and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
            raise UnsupportedError(
                f"{len(labels)} steps run as NumPy, which an exported program does without: "
                f"{', '.join(labels[:_MOST_NAMED])}{rest}; export the part without them (inputs=, outputs=). "
                "`cenote inspect` says why each has no kernel"
            )

    def _add_kernel(self, symbol: str, spec: KernelSpec) -> None:
        if symbol not in self._kernels:
            kernel = emitted(spec, self.target)
            if not isinstance(kernel, Kernel):
                raise UnsupportedError(f"kernel {symbol} is no kernel of the builder and cannot be exported")
            self._kernels[symbol] = kernel

    def _number(self, array: Array) -> int:
        number = self._numbers.get(id(array))
        if number is None:
            number = self._numbers[id(array)] = self._add(array)
            prepared = (self._pool.preparations or {}).get(id(array))
            if prepared is not None:
                self._preparation[number] = self._prepared(number, prepared)
        return number

    def _add(self, array: Array) -> int:
        self._constants.append(array)
        return len(self._constants) - 1

    def _prepared(self, number: int, prepared: Preparation) -> KernelStep:
        """Return the step that makes a constant, whose source becomes another one."""
        call = prepared.call
        self._add_kernel(call.spec.symbol, call.spec)
        slots = [Slot(SlotKind.CONSTANT, each) for each in (number, self._add(prepared.source()))]
        words = (*slots, *map(word_of, call.arguments[len(slots) :]))
        label = f"constant {number}"
        return KernelStep(label, call.spec.symbol, 0, words, call.items, call.grain, call.scratch)


def _renumbered(step: KernelStep, numbers: Sequence[int]) -> KernelStep:
    """Return the step with the numbers that its constants have among those of all entries."""
    words = tuple(
        replace(word, index=numbers[word.index])
        if isinstance(word, Slot) and word.kind == SlotKind.CONSTANT
        else word
        for word in step.words
    )
    return replace(step, words=words)


def identifier(name: str) -> str:
    """Return a name as an identifier of C."""
    made = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "model"
    return f"m_{made}" if made[0].isdigit() else made
