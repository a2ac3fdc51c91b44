"""Words that options take, as types: a type checker finds `precision="exct"`."""

from __future__ import annotations

from typing import Literal, get_args

Precision = Literal["fast", "exact", "bfloat16", "float16x3"]
Weights = Literal["float32", "bfloat16", "float16"]
Tune = Literal["off", "cached", "full"]
Blocks = Literal["usual", "smaller", "larger"]
"""Sizes of the blocks in which kernels work, relative to those that suit the caches: halves, or twice as large."""
Threads = int | Literal["bound"]
"""Number of threads; "bound": the usual number, each bound to a core of its own."""
Denormals = Literal["preserve", "flush"]
Format = Literal["onnx", "graphdef", "savedmodel", "metagraph", "tflite", "keras", "layers", "bat"]
Accumulate = Literal["float64", "compensated"]
"""Types of sums of floats besides the types' own: float64, or sums that keep what each addition loses."""
Rewrite = Literal["float32", "space_to_batch"]
"""Rewrites of a graph that are worth trying, and not always good: float64 computed in float32; dilated convolutions as
plain ones of every d-th row and column (`passes.pipeline`)."""

PRECISIONS: tuple[str, ...] = get_args(Precision)
WEIGHTS: tuple[str, ...] = get_args(Weights)
ACCUMULATIONS: tuple[str, ...] = get_args(Accumulate)
TUNINGS: tuple[str, ...] = get_args(Tune)
BLOCKS: tuple[str, ...] = get_args(Blocks)
BOUND = "bound"
REWRITES: tuple[str, ...] = get_args(Rewrite)
DENORMALS: tuple[str, ...] = get_args(Denormals)
FORMATS: tuple[str, ...] = get_args(Format)
