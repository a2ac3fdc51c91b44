"""One operator on arrays, without a graph: the dispatch behind `cenote.functional`.

`prepare` does once, for given types, what does not depend on the arrays' content; the runner that it returns does the
rest. Callers keep runners, one per signature: `run` for those who have none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cenote.core.errors import ArgumentError
from cenote.core.types import Array, TensorType
from cenote.ops.base import Arrays, Op, Types

Runner = Callable[[Sequence[Array | None], Sequence[Array] | None], Arrays]
"""Takes the inputs and, or None, the outputs to fill; returns the outputs.

Arrays are row-major and in native byte order, outputs writable and apart from the inputs. Only their memory counts:
a runner reads each as the type it was prepared for, whatever shape the array has. Outputs that it makes have the
shapes that `prepare` was given.
"""


def prepare(
    op: Op,
    inputs: Sequence[TensorType | None],
    threads: int | None = None,
    shapes: Sequence[tuple[int, ...]] = (),
) -> Runner:
    """A runner for inputs of these types. `shapes` of as many elements may replace those of the outputs.

    Raises what `op.infer` raises.
    """
    types = op.infer(*inputs)
    shown = tuple(shapes) or tuple(y.shape for y in types)
    return _reference_runner(op, tuple(inputs), types, shown)


def _reference_runner(
    op: Op, inputs: tuple[TensorType | None, ...], outputs: Types, shapes: Sequence[tuple[int, ...]]
) -> Runner:
    def runner(arrays: Sequence[Array | None], out: Sequence[Array] | None) -> Arrays:
        shaped = [
            None if x is None or t is None else x.reshape(t.shape)
            for x, t in zip(arrays, inputs, strict=True)
        ]
        results = op.reference(*shaped)
        if out is None:
            return tuple(y.reshape(shape) for y, shape in zip(results, shapes, strict=True))
        for target, y in zip(out, results, strict=True):
            target[...] = y.reshape(target.shape)
        return tuple(out)

    return runner


def run(
    op: Op, arrays: Sequence[Array | None], out: Sequence[Array] | None = None, threads: int | None = None
) -> Arrays:
    """The outputs of an operator for row-major arrays; `out`: arrays to fill, of the outputs' types.

    Raises what `op.infer` raises, and ArgumentError where `out` does not fit.
    """
    types = [None if x is None else TensorType.known(x) for x in arrays]
    if out is not None:
        for index, (target, wanted) in enumerate(zip(out, op.infer(*types), strict=True)):
            if target.shape != wanted.shape or target.dtype != wanted.dtype:
                raise ArgumentError(
                    f"{op.name}: out {index} must be {wanted}, got {target.dtype} {list(target.shape)}"
                )
    return prepare(op, types, threads)(arrays, out)
