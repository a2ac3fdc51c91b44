"""Algorithms of pools and convolutions, and rewrites of graphs, from outside the package: what they are written with.

`cenote.register_algorithm` and `cenote.register_rewrite` make them known, the option `extensions` of `cenote.load`
switches them on by name, and docs/extending_algorithms.md shows each, from nothing. The names below are public; the
modules that they come from are not. Kernels are written with `cenote.kernels`.

Pools        a function of a `PoolProblem` and a `Target` returns a `Candidate`: estimated seconds, and a function that
             makes the call of a kernel, a `PoolSpec`, which `window_build` does for windows
Convolutions a function of a `ConvProblem` and a `Target` returns `Lowering`s, which `ConvProblem.lowering` makes
Rewrites     a function of a `Match` of a `Pattern` returns what takes its place, or one of a `Graph` another `Graph`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cenote.core.locks import on_demand

if TYPE_CHECKING:
    from cenote.core.conv_geometry import ConvShape
    from cenote.core.target import Target
    from cenote.core.types import Layout, TensorType
    from cenote.graph.graph import Graph, Node
    from cenote.kernels.base import Call, View
    from cenote.kernels.conv.direct_calls import DirectProblem, direct_calls
    from cenote.kernels.cost_model import moved_seconds, peak_seconds
    from cenote.kernels.elementwise.activations import Activation
    from cenote.kernels.pool.common import PoolSpec, Strip, combine, load, spans
    from cenote.kernels.pool.problem import (
        Candidate,
        Geometry,
        Memory,
        Partition,
        PoolProblem,
        default_band,
        estimate,
        lanes_for,
        spec_fields,
        window_build,
    )
    from cenote.ops.base import Lowering
    from cenote.ops.conv.problem import ConvProblem
    from cenote.passes.extensions.patterns import Constant, Pattern
    from cenote.passes.extensions.rewrites import Match
    from cenote.passes.fuse import Rewriter

__all__ = [
    "Activation",
    "Call",
    "Candidate",
    "Constant",
    "ConvProblem",
    "ConvShape",
    "DirectProblem",
    "Geometry",
    "Graph",
    "Layout",
    "Lowering",
    "Match",
    "Memory",
    "Node",
    "Partition",
    "Pattern",
    "PoolProblem",
    "PoolSpec",
    "Rewriter",
    "Strip",
    "Target",
    "TensorType",
    "View",
    "combine",
    "default_band",
    "direct_calls",
    "estimate",
    "lanes_for",
    "load",
    "moved_seconds",
    "peak_seconds",
    "spans",
    "spec_fields",
    "window_build",
]

__getattr__ = on_demand(
    __name__,
    {
        "cenote.core.conv_geometry": "ConvShape",
        "cenote.core.target": "Target",
        "cenote.core.types": "Layout TensorType",
        "cenote.graph.graph": "Graph Node",
        "cenote.kernels.base": "Call View",
        "cenote.kernels.conv.direct_calls": "DirectProblem direct_calls",
        "cenote.kernels.cost_model": "moved_seconds peak_seconds",
        "cenote.kernels.elementwise.activations": "Activation",
        "cenote.kernels.pool.common": "PoolSpec Strip combine load spans",
        "cenote.kernels.pool.problem": "Candidate Geometry Memory Partition PoolProblem "
        "default_band estimate lanes_for spec_fields window_build",
        "cenote.ops.base": "Lowering",
        "cenote.ops.conv.problem": "ConvProblem",
        "cenote.passes.extensions.patterns": "Constant Pattern",
        "cenote.passes.extensions.rewrites": "Match",
        "cenote.passes.fuse": "Rewriter",
    },
)


def __dir__() -> list[str]:
    return __all__
