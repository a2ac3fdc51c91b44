"""Nodes that run nodes of their own many times: ONNX's Loop, Scan and SequenceMap.

A `Body` is compiled like a model of its own when it first runs (`stages/stage.py`), once for all iterations: sizes that
change from one to the next are sizes of a class, as those of a model's inputs are. `reference` walks it node by node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import ClassVar, Protocol

import numpy as np

from cenote.core.containers import items_of, joined, packed
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, CenoteError, DTypeError, ShapeError, UnsupportedError
from cenote.core.types import Array, Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate, infer_node
from cenote.ops.base import Arrays, Op, ShapeFromData, Types
from cenote.runtime.rounds import Feedback, Rounded


class RunBody(Protocol):
    """Protocol of a body that runs: it returns its outputs for its formal inputs followed by its captured values."""

    def __call__(self, values: Sequence[Array]) -> Sequence[Array]: ...

    def rounds(self, values: Sequence[Array], feedback: Feedback, most: int) -> Rounded | None:
        """Run up to `most` rounds at once, one at least; None where that is impossible. `values` hold walked arrays
        as a whole."""


@dataclass(frozen=True, eq=False)
class Body:
    """Nodes that a loop runs. `formals` are its inputs, `captured` the outer values that it reads besides; `declared`
    is the file's declaration of each output, if any."""

    name: str
    formals: tuple[str, ...]
    captured: tuple[str, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Array]
    declared: tuple[Declared | None, ...]

    def graph(self, values: Sequence[Array], known: Mapping[str, Array]) -> Graph:
        """Return the body for inputs of the dtypes and ranks of these values; those that are `known` become
        constants."""
        inputs = tuple(
            Declared(name, value.dtype, (None,) * value.ndim)
            for name, value in zip((*self.formals, *self.captured), values, strict=True)
            if name not in known
        )
        return Graph(inputs, self.outputs, self.nodes, {**self.constants, **known}, name=self.name)

    def __call__(self, values: Sequence[Array]) -> list[Array]:
        """Return the outputs by references alone."""
        names = (*self.formals, *self.captured)
        values_by_name = evaluate(self.graph(values, {}), dict(zip(names, values, strict=True)))
        return [values_by_name[name] for name in self.outputs]

    def rounds(self, values: Sequence[Array], feedback: Feedback, most: int) -> None:
        """Return None: references run one by one."""

    def output_type(self, index: int, values: Sequence[Array]) -> TensorType:
        """Return the type of an output where the body never ran: inferred, else as declared, with 0 for open sizes.

        `values` are those of its formal inputs, of which only the types count, and the captured ones."""
        types = {name: TensorType.known(x) for name, x in self.constants.items()}
        count = len(self.formals)
        for name, x in zip(self.formals, values[:count], strict=True):
            types[name] = TensorType.of(x.dtype, x.shape)
        for name, x in zip(self.captured, values[count:], strict=True):
            types[name] = TensorType.known(x)
        try:
            for node in self.nodes:
                output_types = infer_node(node, [types[name] if name else None for name in node.inputs])
                types.update(
                    (name, kind) for name, kind in zip(node.outputs, output_types, strict=False) if name
                )
            return types[self.outputs[index]]
        except (CenoteError, KeyError):
            pass
        declared = self.declared[index]
        if declared is None or declared.shape is None:
            raise UnsupportedError(
                f"the loop ran no iteration, and nothing says which shape '{self.outputs[index]}' has in one"
            )
        return TensorType.of(declared.dtype, [n if isinstance(n, int) else 0 for n in declared.shape])


@dataclass(frozen=True)
class ControlFlow(Op):
    """Base of the operators with a body; its captured values follow the node's own inputs."""

    apart: ClassVar[bool] = True
    body: Body = field(repr=False)

    def __str__(self) -> str:
        return self.name

    def infer(self, *inputs: TensorType | None) -> Types:
        raise ShapeFromData(f"{self.name}: what it makes is known when it has run")

    def reference(self, *inputs: Array | None) -> Arrays:
        return self.run(inputs, self.body)

    def run(self, inputs: Sequence[Array | None], body: RunBody) -> Arrays:
        """Return the outputs, by calling a body."""
        raise NotImplementedError(f"{type(self).__name__}.run")

    def fixed(self, inputs: Sequence[str], constants: Mapping[str, Array]) -> dict[str, Array]:
        """Return the captured values that are constants, by the body's names; `inputs` are the node's."""
        outer = inputs[len(inputs) - len(self.body.captured) :]
        return {
            name: constants[value]
            for name, value in zip(self.body.captured, outer, strict=True)
            if value in constants
        }

    def _split(self, inputs: Sequence[Array | None]) -> tuple[list[Array | None], list[Array]]:
        """Return the node's own inputs, and the body's captured values."""
        count = len(inputs) - len(self.body.captured)
        return list(inputs[:count]), _present(self.name, inputs[count:])


@dataclass(frozen=True)
class CompiledLoop(Op):
    """Loop whose body has been compiled."""

    op: ControlFlow
    body: RunBody

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.op.name)  # errors name it

    def infer(self, *inputs: TensorType | None) -> Types:
        return self.op.infer(*inputs)

    def reference(self, *inputs: Array | None) -> Arrays:
        return self.op.run(inputs, self.body)


_ENDLESS = 1 << 62


@dataclass(frozen=True)
class Loop(ControlFlow):
    """Operator that runs its body up to `trips` times while a condition holds (both optional; without both, for
    ever).

    Inputs: trips (one integer), condition (one bool), then the carried values. The body gets the iteration's number,
    the condition and those values, and gives the next condition, the next values, then one element of each scan
    output, which are stacked along a new first axis. Carried values may change their shape, not their dtype.
    """

    name: ClassVar[str] = "loop"

    def run(self, inputs: Sequence[Array | None], body: RunBody) -> Arrays:
        (trips, condition, *first), captured = self._split(inputs)
        carried = _present(self.name, first)
        most = None if trips is None else _integer(self.name, trips)
        going = condition is None or _truth(self.name, condition)
        if going and (most is None or most > 0):
            results = self._at_once(carried, captured, body, most)
            if results is not None:
                return results
        scans: list[list[Array]] = [[] for _ in self.body.outputs[1 + len(carried) :]]
        step = 0
        while going and (most is None or step < most):
            made = body([np.array(step, np.int64), np.array(going), *carried, *captured])
            going = _truth(self.name, made[0])
            carried = _next_values(self.name, carried, made[1 : 1 + len(carried)])
            for scan, item in zip(scans, made[1 + len(carried) :], strict=True):
                scan.append(item)
            step += 1
        values = [np.array(0, np.int64), np.array(going), *carried, *captured]
        stacked = [
            _stacked(self.name, scan, self.body, 1 + len(carried) + index, values)
            for index, scan in enumerate(scans)
        ]
        return (*carried, *stacked)

    def _at_once(
        self, carried: Sequence[Array], captured: Sequence[Array], body: RunBody, most: int | None
    ) -> Arrays | None:
        """Run all rounds by native code alone, where the body allows it and values keep their shapes."""
        count = 1 + len(carried)
        feedback = Feedback(
            carried={1 + index: index for index in range(count)},
            walked={},
            kept=dict.fromkeys(range(count, len(self.body.outputs)), False),
            counted=0,
            going=0,
        )
        values = [np.array(0, np.int64), np.array(True), *carried, *captured]
        rounded = body.rounds(values, feedback, _ENDLESS if most is None else most)
        if rounded is None:
            return None
        return (*(rounded.carried[1 + index] for index in range(1, count)), *rounded.kept.values())


@dataclass(frozen=True)
class Scan(ControlFlow):
    """Operator that runs its body once for each position along an axis of its `scanned` last inputs.

    The body gets the states and a slice of each scanned input (without the axis), and gives the next states and one
    slice of each scan output. `backward` says per input and output which is walked from the end; `axes` gives the
    place of the axis. `batched` (opset 8): the first input may be the length of each sequence, and all values have a
    batch axis before; slices past a sequence's length are zeros.
    """

    scanned: int = 1
    input_axes: tuple[int, ...] = ()
    output_axes: tuple[int, ...] = ()
    input_backward: tuple[int, ...] = ()
    output_backward: tuple[int, ...] = ()
    batched: bool = False

    name: ClassVar[str] = "scan"

    def run(self, inputs: Sequence[Array | None], body: RunBody) -> Arrays:
        own, captured = self._split(inputs)
        if self.batched:
            return self._in_batches(own, captured, body)
        return self._one(_present(self.name, own), captured, body, None)

    def _one(
        self, own: Sequence[Array], captured: Sequence[Array], body: RunBody, length: int | None
    ) -> Arrays:
        """Return states and scan outputs of one sequence; of the first `length` slices of it."""
        states, scanned = list(own[: len(own) - self.scanned]), own[len(own) - self.scanned :]
        axes = [_axis(self.name, _at(self.input_axes, i), x.ndim) for i, x in enumerate(scanned)]
        extents = {x.shape[axis] for x, axis in zip(scanned, axes, strict=True)}
        if len(extents) != 1:
            raise ShapeError(
                f"scan: its inputs have different lengths ({', '.join(map(str, sorted(extents)))})"
            )
        count = extents.pop() if length is None else length
        walked = [np.moveaxis(x, axis, 0)[:count] for x, axis in zip(scanned, axes, strict=True)]
        results = self._at_once(states, walked, captured, body) if count else None
        if results is not None:
            return results
        scans: list[list[Array]] = [[] for _ in self.body.outputs[len(states) :]]
        slices: list[Array] = [
            np.zeros(np.delete(x.shape, a), x.dtype) for x, a in zip(scanned, axes, strict=True)
        ]
        for step in range(count):
            slices = [
                np.array(np.take(x, count - 1 - step if _at(self.input_backward, i) else step, axis))
                for i, (x, axis) in enumerate(zip(scanned, axes, strict=True))
            ]
            made = body([*states, *slices, *captured])
            states = _next_values(self.name, states, made[: len(states)])
            for scan, item in zip(scans, made[len(states) :], strict=True):
                scan.append(item)
        values = [*states, *slices, *captured]
        return (*states, *(self._joined(i, scan, len(states) + i, values) for i, scan in enumerate(scans)))

    def _at_once(
        self, states: Sequence[Array], walked: Sequence[Array], captured: Sequence[Array], body: RunBody
    ) -> Arrays | None:
        """Run all rounds by native code alone, where the body allows it and states keep their shapes."""
        count = len(states)
        feedback = Feedback(
            carried={index: index for index in range(count)},
            walked={count + i: bool(_at(self.input_backward, i)) for i in range(len(walked))},
            kept={
                count + i: bool(_at(self.output_backward, i)) for i in range(len(self.body.outputs) - count)
            },
        )
        rounded = body.rounds([*states, *walked, *captured], feedback, len(walked[0]))
        if rounded is None:
            return None
        axes = [
            _axis(self.name, _at(self.output_axes, i), y.ndim) for i, y in enumerate(rounded.kept.values())
        ]
        kept = [
            np.ascontiguousarray(np.moveaxis(y, 0, axis))
            for y, axis in zip(rounded.kept.values(), axes, strict=True)
        ]
        return (*(rounded.carried[index] for index in range(count)), *kept)

    def _joined(self, index: int, scan: list[Array], output: int, values: Sequence[Array]) -> Array:
        """Return a scan output, its slices in order along their axis."""
        if _at(self.output_backward, index):
            scan.reverse()
        stacked = _stacked(self.name, scan, self.body, output, values)
        axis = _axis(self.name, _at(self.output_axes, index), stacked.ndim)
        return np.ascontiguousarray(np.moveaxis(stacked, 0, axis))

    def _in_batches(self, own: Sequence[Array | None], captured: Sequence[Array], body: RunBody) -> Arrays:
        """Run each sequence of the batch by itself, for opset 8."""
        lengths, values = own[0], _present(self.name, own[1:])
        batch = values[0].shape[0] if values and values[0].ndim else 0
        if batch == 0 or any(x.ndim < 1 or x.shape[0] != batch for x in values):
            raise ShapeError("scan: all inputs of opset 8 need the same batch axis first, of at least 1")
        most = values[-1].shape[1] if values[-1].ndim > 1 else 0
        counts = [most] * batch if lengths is None else [int(n) for n in lengths.reshape(-1)]
        if len(counts) != batch or not all(0 <= n <= most for n in counts):
            raise ShapeError(
                f"scan: sequence lengths {counts} do not fit a batch of {batch} of length {most}"
            )
        rows = [self._one([x[i] for x in values], captured, body, n) for i, n in enumerate(counts)]
        states = len(values) - self.scanned
        return tuple(
            joined([y if i < states else _padded(y, most) for y in column], "scan: results of a batch")
            for i, column in enumerate(zip(*rows, strict=True))
        )


@dataclass(frozen=True)
class SequenceMap(ControlFlow):
    """Operator that runs its body for each element of a sequence; further sequences are walked in step, tensors are
    given to each. The outputs are sequences."""

    name: ClassVar[str] = "sequence_map"

    def run(self, inputs: Sequence[Array | None], body: RunBody) -> Arrays:
        own, captured = self._split(inputs)
        first, *others = _present(self.name, own)
        items = items_of(first, "sequence_map: its first input")
        columns = [items]
        for other in others:
            column = (
                items_of(other, "") if other.dtype == object and not other.shape else (other,) * len(items)
            )
            if len(column) != len(items):
                raise ShapeError(f"sequence_map: sequences of {len(items)} and {len(column)} elements")
            columns.append(column)
        rows = [body([*row, *captured]) for row in zip(*columns, strict=True)]
        return tuple(packed(tuple(row[i] for row in rows)) for i in range(len(self.body.outputs)))


def _present(name: str, values: Sequence[Array | None]) -> list[Array]:
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        raise ShapeError(f"{name}: a value that goes round, or is scanned, is missing")
    return present


def _integer(name: str, value: Array) -> int:
    if value.size != 1 or value.dtype.kind not in "iu":
        raise ArgumentError(
            f"{name}: the number of iterations must be one integer, got {TensorType.known(value)}"
        )
    return int(value.reshape(())[()])


def _truth(name: str, value: Array) -> bool:
    if value.size != 1 or value.dtype != np.bool_:
        raise DTypeError(f"{name}: a condition must be one bool, got {TensorType.known(value)}")
    return bool(value.reshape(())[()])


def _next_values(name: str, before: Sequence[Array], after: Sequence[Array]) -> list[Array]:
    for old, new in zip(before, after, strict=True):
        if old.dtype != new.dtype:
            raise DTypeError(f"{name}: a value that goes round was {old.dtype} and becomes {new.dtype}")
    return list(after)


def _stacked(name: str, scan: list[Array], body: Body, output: int, values: Sequence[Array]) -> Array:
    if scan:
        return joined(scan, f"{name}: the slices of '{body.outputs[output]}'")
    kind = body.output_type(output, values)
    return np.zeros((0, *kind.shape), kind.dtype)


def _padded(y: Array, length: int) -> Array:
    return (
        np.concatenate([y, np.zeros((length - y.shape[0], *y.shape[1:]), y.dtype)])
        if y.shape[0] < length
        else y
    )


def _at(values: tuple[int, ...], index: int) -> int:
    return values[index] if index < len(values) else 0


def _axis(name: str, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ArgumentError(f"{name}: axis {axis} does not exist in {rank} axes")
    return axis % rank
