"""Linear layer for one input vector, at the speed at which memory can be read.

  for group of rows of the weights:             an item; the rows lie one after another in memory, as the model has them
      for block of vectors along the row:       emitted
          for vector of it:                     emitted; one vector of x, reused for every row of the group
              for row:                          unrolled: a stream and an accumulator each
                  accumulate weights * x
          add what earlier blocks accumulated, or keep it in scratch                `partial_sums.py`
      sum the lanes, add the bias, apply the activation

Nothing is repacked: the weights stay where the model has them, (N, K) row-major. Every row is summed in one fixed
order, whatever the number of threads.
"""

from __future__ import annotations

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, Pointer, Value
from cenote.codegen.variables import Variable
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels import partial_sums
from cenote.kernels.base import Call, KernelSpec, View, float_pointers, numbers_named
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.partial_sums import PartialSum, SumBlocks

# Streams at a time: as many accumulators as hide the latency of a multiply-add (4 cycles, 2 a cycle).
ROWS = 8
_AHEAD = 512  # prefetch distance in bytes in each stream
_GRAIN = 256 << 10  # bytes of weights that a thread takes at a time


@dataclass(frozen=True)
class GemvSpec(KernelSpec):
    """Kernel of `rows` rows at a time."""

    rows: int
    activation: Activation

    @property
    def words(self) -> tuple[Parameter, ...]:
        names = ("n", "k", *partial_sums.WORDS)
        return (*float_pointers(("x", "w", "bias", "y")), *numbers_named(names))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes, size = target.lanes(), k.number("k")
        for item in k.range(k.begin, k.end):
            first = self._first_row(k, item)
            streams = [k.pointer("w") + (first + row) * size for row in range(self.rows)]
            sums = [k.variable(k.constant(F32, 0.0, lanes)) for _ in range(self.rows)]
            whole = size // lanes * lanes
            vectors, block = (size + (lanes - 1)) // lanes, k.integer(1) << k.number("block")
            for begin in k.range(0, vectors, block):
                part = PartialSum(k, begin, k.min_drop_nan(begin + block, vectors), vectors)
                for total in sums:
                    total.value = k.constant(F32, 0.0, lanes)
                for at in k.range(begin * lanes, k.min_drop_nan(part.end * lanes, whole), lanes):
                    self._accumulate(k, streams, sums, at, lanes, None)
                with k.when(part.is_last & (whole < size)):
                    self._accumulate(k, streams, sums, whole, lanes, k.tail_mask(size - whole, lanes))
                part.fold(sums, k.scratch.cast(F32), k.integer(self.rows * lanes))
            for row, total in enumerate(sums):
                value = k.reduce(total.value, "add") + k.pointer("bias").load(first + row)
                k.pointer("y").store(self.activation.emit(k, value), first + row)
        return k

    def _first_row(self, k: Kernel, item: Value) -> Value:
        """First row of an item. The last group reaches back over rows of the one before: they get the same bits
        twice."""
        first, last = item * self.rows, k.number("n") - self.rows
        return k.select(first < last, first, last)

    def _accumulate(
        self,
        k: Kernel,
        streams: list[Pointer],
        sums: list[Variable],
        at: Value,
        lanes: int,
        mask: Value | None,
    ) -> None:
        x = k.pointer("x").load(at, lanes, mask)
        for stream, total in zip(streams, sums, strict=True):
            if mask is None:
                k.prefetch(stream + at, _AHEAD // stream.element.nbytes)
            total.value = k.fma(stream.load(at, lanes, mask), x, total.value)


def gemv_call(
    x: View,
    weights: View | Array,
    bias: View | Array,
    y: View,
    n: int,
    k: int,
    activation: Activation,
    target: Target,
    exact: bool = False,
) -> Call:
    """Return the call of y (1, n) = activation(x (1, k) @ weights (n, k)' + bias (n,)). `exact`: sums are made of
    shorter chains."""
    rows = min(ROWS, n)
    spec = GemvSpec(rows, activation)
    grain = max(1, _GRAIN // max(1, 4 * rows * k))
    lanes, blocks = target.lanes(), SumBlocks.of(exact)
    words = {"x": x, "w": weights, "bias": bias, "y": y, "n": n, "k": k, **blocks.words}
    scratch = 4 * rows * lanes * blocks.slots(-(-k // lanes))
    return Call.named(spec, words, -(-n // rows), grain, scratch)
