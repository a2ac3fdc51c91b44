"""The named rules of pooling: what frameworks do differently, as data. docs/pooling_semantics.md tabulates it."""

from __future__ import annotations

from dataclasses import dataclass

from cenote.core.errors import ArgumentError, shown


@dataclass(frozen=True)
class Semantics:
    """One framework's rules.

    always_ceil        output sizes are rounded up whatever ceil_mode says
    drop               which last windows ceil_mode drops: see pool_geometry.DROP_RULES
    stride             default stride: "window" or "one"
    pad_limit          most padding: "half" of the window's reach, less than the "window" (undilated), or
                       less than its "reach"
    include_pad        default of count_include_pad
    index              default of what indices count: "plane" (D H W), "tensor" (N C D H W), "nhwc" ((y W +
                       x) C + c)
    nan                "propagate" or "ignore"
    rounding           integer averages: "zero" (truncate), "even" (nearest, ties to even), "away"
                       (nearest, ties away from zero)
    signed_powers      Lp pools sum x^p, not |x|^p, and scale windows that overhang as if they were full
    """

    name: str
    always_ceil: bool = False
    drop: str = "always"
    stride: str = "window"
    pad_limit: str = "reach"
    include_pad: bool = False
    index: str = "plane"
    nan: str = "propagate"
    rounding: str = "even"
    signed_powers: bool = False


TORCH = Semantics("torch", pad_limit="half", include_pad=True, rounding="zero", signed_powers=True)
ONNX = Semantics("onnx", stride="one", index="tensor")
TENSORFLOW = Semantics("tensorflow", index="nhwc", nan="ignore", rounding="away")
TENSORRT = Semantics("tensorrt", drop="never", stride="one")
CAFFE = Semantics(
    "caffe",
    always_ceil=True,
    drop="padded",
    stride="one",
    pad_limit="window",
    include_pad=True,
    nan="ignore",
)

SEMANTICS = {rules.name: rules for rules in (TORCH, ONNX, TENSORFLOW, TENSORRT, CAFFE)}


def semantics_named(where: str, name: object) -> Semantics:
    """The rules of a name; ArgumentError when there are none."""
    rules = SEMANTICS.get(name) if isinstance(name, str) else None
    if rules is None:
        raise ArgumentError(
            f"{where}: semantics {shown(name)} is not known (allowed: {', '.join(SEMANTICS)})"
        )
    return rules
