"""A function of single bytes as the table of its 256 values: activations between dequantisation and quantisation,
changes of scale."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from cenote.codegen.byte_tables import ENTRIES
from cenote.core.deferred import dataclass
from cenote.core.errors import DTypeError, ShapeError
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import LAUNCH, moved_seconds
from cenote.kernels.elementwise.byte_table import byte_table_call
from cenote.ops.base import Arrays, Box, Lowering, Op, Sample, Types
from cenote.ops.values import seeded

_BYTES = ("uint8", "int8")


@dataclass(frozen=True)
class ByteTable(Op):
    """The entry of a table (256 bytes, u8 or s8) for each element of x (u8 or s8, any shape). The entry of an s8
    number is that of its bits as u8: -1 has the last one."""

    name = "byte_table"
    operands = ("x", "table")

    def types(self, x: TensorType, table: TensorType) -> Types:
        for value, what in ((x, "x"), (table, "table")):
            if value.dtype.name not in _BYTES:
                raise DTypeError(f"{self.name}: '{what}' has type {value.dtype}, expected int8 or uint8")
        if table.shape != (ENTRIES,):
            raise ShapeError(f"{self.name}: table {table} must have {ENTRIES} entries")
        return (TensorType(table.dtype, x.shape),)

    def compute(self, x: Array, table: Array) -> Arrays:
        return (table[x.view(np.uint8)],)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, table = map(present, inputs)
        seconds = LAUNCH + moved_seconds(2 * x.nbytes)

        def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            argument = present(views[1]) if table.value is None else np.ascontiguousarray(table.value)
            return [byte_table_call(present(views[0]), argument, outputs[0], target)]

        lowering = Lowering(
            "table",
            (PLAIN, PLAIN if table.value is None else None),
            (PLAIN,),
            bind,
            seconds,
            in_place=(0,) if x.dtype == table.dtype and x.value is None else (),
        )
        yield lowering
        if 3 <= x.rank <= 5:
            blocked = Layout(target.lanes())
            yield replace(
                lowering, name="table_blocked", inputs=(blocked, lowering.inputs[1]), outputs=(blocked,)
            )

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        return (box, Box.whole((ENTRIES,)))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for x, y in ((np.uint8, np.uint8), (np.int8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)):
            table = np.random.default_rng(3).permutation(ENTRIES).astype(np.uint8).view(y)
            every = np.arange(ENTRIES).astype(np.uint8).view(x)
            yield Sample(cls(), (np.tile(every, 3)[5:].reshape(1, 1, -1), table), "every byte")
            yield Sample(cls(), (seeded((2, 19, 5, 7), 1, x), table))
        for shape in ((), (3,), (0, 4), (65,), (3, 40, 33), (70001,)):
            yield Sample(cls(), (seeded(shape, 2, np.uint8), table))
