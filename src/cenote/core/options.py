"""The words that options take, as types: a type checker finds `precision="exct"`."""

from __future__ import annotations

from typing import Literal

Precision = Literal["fast", "exact"]
Weights = Literal["float32", "bfloat16", "float16"]
Tune = Literal["off", "cached", "full"]
