"""`plan`: a layer, given by the caller's arguments, cut into tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError, shown
from cenote.core.types import TensorType, dtype_named
from cenote.ops.base import Op
from cenote.ops.elementwise import activation as activations
from cenote.ops.elementwise import unary as functions
from cenote.ops.elementwise.pointwise import Pointwise
from cenote.tiling.hardware import Hardware, hardware_of
from cenote.tiling.kinds.arguments import LayerArguments, shape_of
from cenote.tiling.kinds.families import family_of, layer_kinds
from cenote.tiling.layer import Layer
from cenote.tiling.policy import policy_of
from cenote.tiling.problem import Problem, TilingPlan
from cenote.tiling.reduction import planned
from cenote.tiling.search import search
from cenote.tiling.three_stage import three_stage

Strategy = Literal["three-stage", "search"]
Numbers = int | Sequence[int]

PLANNERS: dict[str, Callable[[Problem], TilingPlan]] = {"three-stage": three_stage, "search": search}


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
    output_padding: Numbers = 0,
    other: Sequence[int] | None = None,
    axis: int = -1,
    affine: bool = True,
    fused: Sequence[str] = (),
    hardware: str | Mapping[str, Any] | Hardware = "npu",
    strategy: Strategy = "three-stage",
    **policy: Any,
) -> TilingPlan:
    """Plan the tiles of one layer on one machine.

    kind       "maxpool", "minpool", "avgpool", "lppool", "adaptive_maxpool", "adaptive_avgpool", "global_maxpool",
               "global_avgpool", "global_lppool"; "maxpool_backward", "minpool_backward", "avgpool_backward",
               "adaptive_maxpool_backward", "adaptive_avgpool_backward", "global_avgpool_backward"; "conv",
               "conv_transpose", "matmul", "layer_norm"; underscores do not matter
    input      (N, C, *spatial), 1 to 3 spatial axes, of gradients those of the pool's input; matmul: (…, M, K);
               layer_norm: 2 to 5 axes
    kernel     window; one number, or one per axis
    stride     step; by default the kernel for pools, 1 for convolutions
    padding    one number, one per axis, or (begin, end) per axis
    dilation   distance of the taps
    ceil_mode  pools: round the output size up, and drop a last window that starts beyond the input
    auto_pad   "NOTSET", "SAME_UPPER", "SAME_LOWER" or "VALID"; the last three in place of `padding`
    dtype      element type
    indices    "int64" or "int32": return the places of the maxima too, counted within their plane; of a gradient, the
               type of the places that it reads (int64 by default)
    count_include_pad, divisor_override, p   as in AveragePool and LpPool
    output     adaptive pools: output extents
    filters    convolutions: output channels; by default as many as input channels
    groups     convolutions: groups; `bias`: whether there is one
    output_padding   conv_transpose: elements that are added at the ends of axes
    other      matmul: (K, N), or (…, K, N) with as many matrices as `input` has
    axis       layer_norm: the first normalised axis; `affine`: whether there are a scale and a bias
    fused      elementwise operators of one input that follow, by name: ("relu", "sigmoid")
    hardware   a name (`hardware_names()`), a JSON file, or a dict with its fields
    strategy   "three-stage", or "search" for the tile of the fewest cycles
    policy     fields of `Policy`

    Raises ArgumentError, ShapeError or DTypeError for faults of the layer, the hardware or the policy (each names the
    field), CapacityError when not even one output fits, with the bytes that it needs and those of the buffer.
    """
    if strategy not in PLANNERS:
        raise ArgumentError(f"tiling.plan: strategy must be three-stage or search, got {shown(strategy)}")
    machine, chosen = hardware_of(hardware), policy_of(policy)
    given: dict[str, Any] = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    given |= {"ceil_mode": ceil_mode, "auto_pad": auto_pad, "count_include_pad": count_include_pad}
    given |= {"divisor_override": divisor_override, "p": p, "output": output, "indices": indices}
    given |= {"filters": filters, "groups": groups, "bias": bias, "output_padding": output_padding}
    given |= {"other": other, "axis": axis, "affine": affine}
    layer = _layer(kind, _dtype(dtype), input, given, _fused(fused))
    return plan_layer(layer, machine, strategy, chosen.to_dict())


def _layer(
    kind: str, dtype: np.dtype[Any], shape: Sequence[int], given: dict[str, Any], fused: tuple[Op, ...]
) -> Layer:
    name, family = family_of(kind)
    _refuse_unused(name, family.names[name], given)
    x = TensorType.of(dtype, shape_of("input", shape, family.ranks))
    return family.build(LayerArguments(name, x, given, fused))


def plan_layer(layer: Layer, hardware: Hardware, strategy: str, policy: dict[str, Any]) -> TilingPlan:
    """Plan the tiles of a layer that exists already."""
    return planned(PLANNERS[strategy], strategy, Problem(layer, hardware, policy_of(policy)))


def _refuse_unused(kind: str, allowed: Sequence[str], given: dict[str, Any]) -> None:
    """Refuse arguments that have no meaning for a kind: they are mistakes."""
    defaults = {
        "padding": 0,
        "dilation": 1,
        "auto_pad": "NOTSET",
        "p": 2.0,
        "groups": 1,
        "axis": -1,
        "affine": True,
    }
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


__all__ = ["layer_kinds", "plan", "plan_layer"]
