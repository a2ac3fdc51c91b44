"""What the functions that slide a window share: from arguments to the fields of an operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cenote.core.errors import ArgumentError
from cenote.core.pool_semantics import Semantics, semantics_named
from cenote.core.types import TensorType
from cenote.functional.arguments import Form, flag, form, numbers, padding, refuse_empty, strides
from cenote.functional.dispatch import Plan
from cenote.ops.base import Op
from cenote.ops.pool.max import NAN_RULES


@dataclass(frozen=True)
class WindowArguments:
    """The arguments of a windowed pool as they came."""

    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    dilation: Any = 1
    ceil_mode: Any = False

    def fields(self, where: str, rank: int, rules: Semantics) -> dict[str, Any]:
        """The fields of WindowPool, but for channels_last. Raises ArgumentError naming the argument."""
        window = numbers(where, "kernel_size", self.kernel_size, rank, 1)
        stride = strides(where, self.stride, window, rules)
        dilation = numbers(where, "dilation", self.dilation, rank, 1)
        pads, auto_pad = padding(where, self.padding, window, dilation, rules.pad_limit)
        ceil_mode = flag(where, "ceil_mode", self.ceil_mode)
        if ceil_mode and rules.name == "tensorflow":
            raise ArgumentError(
                f"{where}: ceil_mode must be False with semantics='tensorflow', got True; padding='same' rounds up"
            )
        return {
            "window": window,
            "stride": stride,
            "pads": pads,
            "dilation": dilation,
            "auto_pad": auto_pad,
            "ceil_mode": ceil_mode or rules.always_ceil,
            "drop": rules.drop,
        }


def window_fields(
    where: str, rank: int, arguments: WindowArguments, layout: Any, rules: Semantics, x: TensorType
) -> tuple[Form, dict[str, Any]]:
    """How the input is read, and the fields of WindowPool."""
    fields = arguments.fields(where, rank, rules)
    shape = form(where, x.shape, rank, layout)
    refuse_empty(where, shape)
    fields["channels_last"] = shape.channels_last
    return shape, fields


def plan_for(op: Op, x: TensorType, shape: Form) -> Plan:
    """A plan for an operator of one input whose outputs have the input's axes."""
    outputs = op.infer(TensorType(x.dtype, shape.batched))
    return Plan(op, (shape.batched,), tuple(shape.restore(y.shape) for y in outputs))


def rules_of(where: str, semantics: Any, nan: Any) -> tuple[Semantics, str]:
    """The rules of a name and the NaN rule: the argument, or where it is None that of the semantics."""
    rules = semantics_named(where, semantics)
    if nan is None:
        return rules, rules.nan
    if nan not in NAN_RULES:
        raise ArgumentError(f"{where}: nan must be one of {', '.join(map(repr, NAN_RULES))}, got {nan!r}")
    return rules, str(nan)
