"""`plan`: a layer, given by the caller's arguments, cut into tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np

from cenote.core import limits
from cenote.core.errors import ArgumentError, DTypeError, ShapeError, shown
from cenote.core.types import Array, TensorType, dtype_named
from cenote.ops.base import Op
from cenote.ops.conv.conv import Conv
from cenote.ops.elementwise import activation as activations
from cenote.ops.elementwise import unary as functions
from cenote.ops.elementwise.pointwise import Pointwise
from cenote.ops.pool.adaptive import AdaptiveAveragePool, AdaptiveMaxPool
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.lp import GlobalLpPool, LpPool
from cenote.ops.pool.whole_map import GlobalAveragePool, GlobalMaxPool
from cenote.ops.pool.window import MaxPool, MinPool
from cenote.tiling.hardware import Hardware, hardware_of
from cenote.tiling.layer import Layer, layer_of
from cenote.tiling.policy import policy_of
from cenote.tiling.problem import Problem, TilingPlan
from cenote.tiling.search import search
from cenote.tiling.three_stage import three_stage

Strategy = Literal["three-stage", "search"]
Numbers = int | Sequence[int]

PLANNERS: dict[str, Callable[[Problem], TilingPlan]] = {"three-stage": three_stage, "search": search}
_SLIDING: dict[str, Any] = {"maxpool": MaxPool, "minpool": MinPool, "avgpool": AveragePool, "lppool": LpPool}
_ADAPTIVE: dict[str, Any] = {"adaptivemaxpool": AdaptiveMaxPool, "adaptiveavgpool": AdaptiveAveragePool}
_GLOBAL: dict[str, Any] = {
    "globalmaxpool": GlobalMaxPool,
    "globalavgpool": GlobalAveragePool,
    "globallppool": GlobalLpPool,
}
KINDS = (*_SLIDING, *_ADAPTIVE, *_GLOBAL, "conv")


def layer_kinds() -> list[str]:
    """Return the kinds of layers that `plan` takes, by name."""
    return list(KINDS)


_INDEXED = ("maxpool", "minpool", "adaptivemaxpool")
# Parameters of a kind, beside those that all kinds have.
_PARAMETERS = {
    **dict.fromkeys(_SLIDING, ("kernel", "stride", "padding", "dilation", "ceil_mode", "auto_pad")),
    **dict.fromkeys(_ADAPTIVE, ("output",)),
    **dict.fromkeys(_GLOBAL, ()),
    "conv": ("kernel", "stride", "padding", "dilation", "auto_pad", "filters", "groups", "bias"),
}
_EXTRA = {"avgpool": ("count_include_pad", "divisor_override"), "lppool": ("p",), "globallppool": ("p",)}


def plan(
    kind: str,
    *,
    input: Sequence[int],
    kernel: Numbers | None = None,
    stride: Numbers | None = None,
    padding: Numbers | Sequence[Sequence[int]] = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    auto_pad: str = "NOTSET",
    dtype: str = "float32",
    indices: str | None = None,
    count_include_pad: bool = False,
    divisor_override: int = 0,
    p: float = 2.0,
    output: Numbers | None = None,
    filters: int | None = None,
    groups: int = 1,
    bias: bool = False,
    fused: Sequence[str] = (),
    hardware: str | Mapping[str, Any] | Hardware = "npu",
    strategy: Strategy = "three-stage",
    **policy: Any,
) -> TilingPlan:
    """Plan the tiles of one layer on one machine.

    kind       "maxpool", "minpool", "avgpool", "lppool", "adaptive_maxpool", "adaptive_avgpool", "global_maxpool",
               "global_avgpool", "global_lppool" or "conv"; underscores do not matter
    input      (N, C, *spatial), 1 to 3 spatial axes
    kernel     window; one number, or one per axis
    stride     step; by default the kernel for pools, 1 for convolutions
    padding    one number, one per axis, or (begin, end) per axis
    dilation   distance of the taps
    ceil_mode  pools: round the output size up, and drop a last window that starts beyond the input
    auto_pad   "NOTSET", "SAME_UPPER", "SAME_LOWER" or "VALID"; the last three in place of `padding`
    dtype      element type
    indices    "int64" or "int32": return the places of the maxima too, counted within their plane
    count_include_pad, divisor_override, p   as in AveragePool and LpPool
    output     adaptive pools: output extents
    filters    convolutions: output channels; by default as many as input channels
    groups     convolutions: groups; `bias`: whether there is one
    fused      elementwise operators of one input that follow, by name: ("relu", "sigmoid")
    hardware   a name (`hardware_names()`), a JSON file, or a dict with its fields
    strategy   "three-stage", or "search" for the tile of the fewest cycles
    policy     fields of `Policy`

    Raises ArgumentError, ShapeError or DTypeError for faults of the layer, the hardware or the policy (each names the
    field), CapacityError when not even one output fits, with the bytes that it needs and those of the buffer.
    """
    if strategy not in PLANNERS:
        raise ArgumentError(f"tiling.plan: strategy must be three-stage or search, got {shown(strategy)}")
    name = _kind(kind)
    machine, chosen = hardware_of(hardware), policy_of(policy)
    x = TensorType.of(_dtype(dtype), _shape(input))
    rank = x.rank - 2
    given: dict[str, Any] = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    given |= {"ceil_mode": ceil_mode, "auto_pad": auto_pad, "count_include_pad": count_include_pad}
    given |= {"divisor_override": divisor_override, "p": p, "output": output}
    given |= {"filters": filters, "groups": groups, "bias": bias}
    _refuse_unused(name, given)
    inputs: tuple[TensorType | None, ...] = (x,)
    if name == "conv":
        op, inputs = _convolution(x, rank, given)
    else:
        op = _pool(name, rank, given, indices is not None)
    if indices is not None and (name not in _INDEXED or indices not in ("int64", "int32")):
        raise ArgumentError(
            f"tiling.plan: indices must be int64, int32 or None, of a maximum or minimum, got {shown(indices)}"
        )
    layer = layer_of(op, inputs, name, _fused(fused), dtype_named(indices) if indices else None)
    return plan_layer(layer, machine, strategy, chosen.to_dict())


def plan_layer(layer: Layer, hardware: Hardware, strategy: str, policy: dict[str, Any]) -> TilingPlan:
    """Plan the tiles of a layer that exists already."""
    return PLANNERS[strategy](Problem(layer, hardware, policy_of(policy)))


def _kind(kind: str) -> str:
    plain = str(kind).lower().replace("_", "").replace("-", "").replace("average", "avg")
    if plain not in KINDS:
        raise ArgumentError(f"tiling.plan: {shown(kind)} is not known (known: {', '.join(KINDS)})")
    return plain


def _refuse_unused(kind: str, given: dict[str, Any]) -> None:
    """Refuse arguments that have no meaning for a kind: they are mistakes."""
    allowed = {*_PARAMETERS[kind], *_EXTRA.get(kind, ())}
    defaults = {"padding": 0, "dilation": 1, "auto_pad": "NOTSET", "p": 2.0, "groups": 1}
    for name, value in given.items():
        if name not in allowed and value not in (None, False, defaults.get(name, 0)):
            raise ArgumentError(
                f"tiling.plan: {name} means nothing to {kind} (it takes {', '.join(sorted(allowed)) or 'none'})"
            )


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return dtype_named(name)
    except TypeError as error:
        raise DTypeError(f"tiling.plan: dtype {shown(name)} is no element type") from error


def _shape(given: Sequence[int]) -> tuple[int, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence) or not 3 <= len(given) <= 5:
        raise ShapeError(
            f"tiling.plan: input must be (N, C, *spatial) with 1 to 3 spatial axes, got {shown(given)}"
        )
    for extent in given:
        if not isinstance(extent, int | np.integer) or isinstance(extent, bool) or extent < 1:
            raise ShapeError(f"tiling.plan: input must have extents of 1 or more, got {shown(given)}")
        limits.within("tiling.plan", "input", int(extent), 1)
    return tuple(int(extent) for extent in given)


def _numbers(name: str, given: Any, rank: int) -> tuple[int, ...]:
    items = tuple(given) if isinstance(given, list | tuple) else (given,)
    whole = all(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items)
    if not whole or len(items) not in (1, rank):
        raise ArgumentError(f"tiling.plan: {name} must be one whole number or {rank}, got {shown(given)}")
    return tuple(int(item) for item in items) * (rank if len(items) == 1 else 1)


def _pads(given: Any, rank: int) -> tuple[tuple[int, int], ...]:
    if isinstance(given, list | tuple) and given and all(isinstance(item, list | tuple) for item in given):
        if len(given) != rank or any(len(item) != 2 for item in given):
            raise ArgumentError(
                f"tiling.plan: padding must be (begin, end) for each of {rank} axes, got {shown(given)}"
            )
        return tuple((int(begin), int(end)) for begin, end in given)
    return tuple((pad, pad) for pad in _numbers("padding", given, rank))


def _pool(kind: str, rank: int, given: dict[str, Any], indices: bool) -> Op:
    chosen: dict[str, Any] = {"return_indices": True} if indices and kind in _INDEXED else {}
    chosen.update({name: given[name] for name in _EXTRA.get(kind, ())})
    if kind in _GLOBAL:
        return cast(Op, _GLOBAL[kind](**chosen))
    if kind in _ADAPTIVE:
        if given["output"] is None:
            raise ArgumentError(f"tiling.plan: {kind} needs output, its output extents")
        return cast(Op, _ADAPTIVE[kind](_numbers("output", given["output"], rank), **chosen))
    if given["kernel"] is None:
        raise ArgumentError(f"tiling.plan: {kind} needs kernel, its window")
    window = _numbers("kernel", given["kernel"], rank)
    stride = window if given["stride"] is None else _numbers("stride", given["stride"], rank)
    op: Op = _SLIDING[kind](
        window,
        stride,
        _pads(given["padding"], rank),
        _numbers("dilation", given["dilation"], rank),
        auto_pad=given["auto_pad"],
        ceil_mode=bool(given["ceil_mode"]),
        **chosen,
    )
    return op


def _convolution(x: TensorType, rank: int, given: dict[str, Any]) -> tuple[Op, tuple[TensorType | None, ...]]:
    if given["kernel"] is None:
        raise ArgumentError("tiling.plan: conv needs kernel, its window")
    (groups,) = _numbers("groups", given["groups"], 1)
    channels = x.shape[1]
    (filters,) = _numbers("filters", channels if given["filters"] is None else given["filters"], 1)
    if groups < 1 or filters < 1 or channels % groups or filters % groups:
        raise ArgumentError(
            f"tiling.plan: groups {groups} must divide {channels} input channels and {filters} filters"
        )
    window = _numbers("kernel", given["kernel"], rank)
    if min(window) < 1:
        raise ArgumentError(f"tiling.plan: kernel must be 1 or more, got {window}")
    op = Conv(
        _numbers("stride", 1 if given["stride"] is None else given["stride"], rank),
        _pads(given["padding"], rank),
        _numbers("dilation", given["dilation"], rank),
        groups,
        auto_pad=given["auto_pad"],
    )
    w = TensorType(x.dtype, (filters, channels // groups, *window))
    return op, (x, w, TensorType(x.dtype, (filters,))) if given["bias"] else (x, w)


def _fused(names: Sequence[str]) -> tuple[Op, ...]:
    known: dict[str, type[Op]] = {
        value.name: value
        for module in (activations, functions)
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Pointwise)
        and value.operands == ("x",)
        and value.name
    }
    for name in names:
        if name not in known:
            raise ArgumentError(f"tiling.plan: fused {shown(name)} is not known ({', '.join(sorted(known))})")
    return tuple(known[name]() for name in names)


__all__ = ["KINDS", "Array", "plan", "plan_layer"]
