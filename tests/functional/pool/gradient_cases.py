"""Calls of pools that have a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

BOXES = np.array([[0, 0.3, 0.2, 4.7, 4.1], [1, 2, 1, 5.5, 6], [0, 1, 1, 1, 1], [1, -2, -1, 3, 9]], np.float64)
# name, positional arguments, keywords, shape of the input; positive=True takes absolute values.
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("max_pool1d", (3, 2, 1), {}, (2, 2, 9)),
    ("max_pool2d", (3, 2, 1), {"ceil_mode": True}, (2, 2, 6, 5)),
    ("max_pool2d", (2, 1, 0, 2), {"layout": "NHWC"}, (1, 5, 6, 3)),
    ("max_pool3d", (2, 1), {}, (1, 2, 3, 4, 3)),
    ("min_pool", (3, 2, 1), {}, (1, 2, 6, 5)),
    ("dilation", (3,), {}, (1, 1, 5, 4)),
    ("erosion", ((2, 3),), {}, (5, 4)),
    ("avg_pool1d", (3, 2, 1), {"layout": "NLC"}, (2, 9, 2)),
    ("avg_pool2d", (3, 2, 1, True), {}, (1, 2, 6, 7)),
    ("avg_pool2d", (3, 2, 1, True, False), {}, (1, 2, 6, 7)),
    ("avg_pool2d", (2,), {"divisor_override": 3, "dilation": 2, "stride": 1}, (1, 2, 5, 5)),
    ("avg_pool3d", (2, 1, 1), {}, (1, 2, 3, 3, 3)),
    ("lp_pool1d", (2.0, 3, 2), {}, (1, 2, 9)),
    ("lp_pool2d", (3.0, 2), {"ceil_mode": True}, (1, 2, 5, 5)),
    ("lp_pool2d", (1.5, 3, 2), {"padding": 1}, (1, 2, 5, 5)),
    ("lp_pool2d", (np.inf, 2), {}, (1, 2, 5, 5)),
    ("lp_pool2d", (2.0, 2), {"ceil_mode": True, "semantics": "torch"}, (1, 2, 5, 5)),
    ("lp_pool3d", (1.0, 2), {}, (1, 2, 4, 4, 4)),
    ("adaptive_max_pool1d", (4,), {}, (2, 2, 9)),
    ("adaptive_max_pool2d", ((3, 4),), {}, (1, 2, 7, 5)),
    ("adaptive_max_pool3d", (2,), {}, (1, 2, 3, 3, 5)),
    ("adaptive_avg_pool1d", (4,), {}, (2, 2, 9)),
    ("adaptive_avg_pool2d", ((3, None),), {}, (1, 2, 7, 5)),
    ("adaptive_avg_pool3d", (2,), {"layout": "NDHWC"}, (1, 3, 3, 5, 2)),
    ("global_max_pool", (), {}, (2, 3, 4, 5)),
    ("global_avg_pool", (), {"layout": "NHWC"}, (2, 3, 4, 5)),
    ("global_lp_pool", (3.0,), {}, (2, 3, 4, 5)),
    ("soft_pool", (3, 2, 1), {}, (1, 2, 6, 5)),
    ("median_pool", (3, 2, 1), {}, (1, 2, 6, 5)),
    ("gem_pool", (), {}, (1, 2, 4, 5)),
    ("gem_pool", (2.5, 0.31, 2), {}, (1, 2, 4, 5)),
    ("stochastic_pool", (2,), {"seed": 4}, (1, 2, 4, 6)),
    ("stochastic_pool", (2,), {"training": False}, (1, 2, 4, 6)),
    ("blur_pool", (), {}, (1, 2, 6, 7)),
    ("blur_pool", (3,), {"border": "zeros", "stride": (1, 2)}, (1, 2, 6, 7)),
    ("blur_pool", (5,), {"border": "replicate", "layout": "NHWC"}, (1, 6, 7, 2)),
    ("spatial_pyramid_pool", ((1, 2, 3),), {}, (2, 2, 5, 5)),
    ("spatial_pyramid_pool", ((2, 1), "avg"), {"layout": "NHWC"}, (2, 5, 5, 2)),
    ("roi_pool", (BOXES, 2), {}, (2, 2, 7, 6)),
    ("ps_roi_pool", (BOXES, 2), {}, (2, 4, 7, 6)),
    ("roi_align", (BOXES, (2, 3)), {}, (2, 2, 7, 6)),
    ("roi_align", (BOXES, 2, 0.9, 2, True), {"mode": "max"}, (2, 2, 7, 6)),
    ("roi_align", (BOXES, 2, 1.0, 2, True), {"mode": "max", "semantics": "onnx"}, (2, 2, 7, 6)),
]
