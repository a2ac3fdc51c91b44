"""The words that options take, as types: a type checker finds `precision="exct"`."""

from __future__ import annotations

from typing import Literal, get_args

Precision = Literal["fast", "exact"]
Weights = Literal["float32", "bfloat16", "float16"]
Tune = Literal["off", "cached", "full"]
Denormals = Literal["preserve", "flush"]

PRECISIONS: tuple[str, ...] = get_args(Precision)
WEIGHTS: tuple[str, ...] = get_args(Weights)
TUNINGS: tuple[str, ...] = get_args(Tune)
DENORMALS: tuple[str, ...] = get_args(Denormals)
