"""Functions on arrays, named and defaulted as torch.nn.functional: every pooling, normalisation, dropout.

    import cenote.functional as F

    y = F.max_pool2d(x, 3, stride=2, padding=1)

Inputs are NumPy arrays or offer DLPack (PyTorch, JAX, ...); the result is of the same kind. docs/pooling_semantics.md
says what each function does where frameworks disagree. Each differentiable function `f` has an `f_backward`.
"""

from __future__ import annotations

from cenote.functional.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from cenote.functional.linear import addmm, bmm, linear, matmul, mm
from cenote.functional.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    normalize,
    rms_norm,
)
from cenote.functional.pool.adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from cenote.functional.pool.average import avg_pool1d, avg_pool2d, avg_pool3d
from cenote.functional.pool.backward import (
    adaptive_avg_pool1d_backward,
    adaptive_avg_pool2d_backward,
    adaptive_avg_pool3d_backward,
    adaptive_max_pool1d_backward,
    adaptive_max_pool2d_backward,
    adaptive_max_pool3d_backward,
    avg_pool1d_backward,
    avg_pool2d_backward,
    avg_pool3d_backward,
    blur_pool_backward,
    dilation_backward,
    erosion_backward,
    fractional_max_pool2d_backward,
    fractional_max_pool3d_backward,
    gem_pool_backward,
    global_avg_pool_backward,
    global_lp_pool_backward,
    global_max_pool_backward,
    lp_pool1d_backward,
    lp_pool2d_backward,
    lp_pool3d_backward,
    max_pool1d_backward,
    max_pool2d_backward,
    max_pool3d_backward,
    max_unpool1d_backward,
    max_unpool2d_backward,
    max_unpool3d_backward,
    median_pool_backward,
    min_pool_backward,
    ps_roi_pool_backward,
    roi_align_backward,
    roi_pool_backward,
    soft_pool_backward,
    spatial_pyramid_pool_backward,
    stochastic_pool_backward,
)
from cenote.functional.pool.fractional import fractional_max_pool2d, fractional_max_pool3d
from cenote.functional.pool.global_pools import global_avg_pool, global_lp_pool, global_max_pool
from cenote.functional.pool.lp import lp_pool1d, lp_pool2d, lp_pool3d
from cenote.functional.pool.max import dilation, erosion, max_pool1d, max_pool2d, max_pool3d, min_pool
from cenote.functional.pool.pyramid import spatial_pyramid_pool
from cenote.functional.pool.regions import ps_roi_pool, roi_align, roi_pool
from cenote.functional.pool.unpool import max_unpool1d, max_unpool2d, max_unpool3d
from cenote.functional.pool.weighted import blur_pool, gem_pool, median_pool, soft_pool, stochastic_pool
from cenote.functional.random import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
    stochastic_depth,
)
from cenote.functional.shape import pool_output_shape
from cenote.functional.softmax import log_softmax, softmax

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool1d_backward",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool2d_backward",
    "adaptive_avg_pool3d",
    "adaptive_avg_pool3d_backward",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_backward",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_backward",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_backward",
    "addmm",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool1d_backward",
    "avg_pool2d",
    "avg_pool2d_backward",
    "avg_pool3d",
    "avg_pool3d_backward",
    "batch_norm",
    "blur_pool",
    "blur_pool_backward",
    "bmm",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "dilation",
    "dilation_backward",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "erosion",
    "erosion_backward",
    "feature_alpha_dropout",
    "fractional_max_pool2d",
    "fractional_max_pool2d_backward",
    "fractional_max_pool3d",
    "fractional_max_pool3d_backward",
    "gem_pool",
    "gem_pool_backward",
    "global_avg_pool",
    "global_avg_pool_backward",
    "global_lp_pool",
    "global_lp_pool_backward",
    "global_max_pool",
    "global_max_pool_backward",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "linear",
    "local_response_norm",
    "log_softmax",
    "lp_pool1d",
    "lp_pool1d_backward",
    "lp_pool2d",
    "lp_pool2d_backward",
    "lp_pool3d",
    "lp_pool3d_backward",
    "matmul",
    "max_pool1d",
    "max_pool1d_backward",
    "max_pool2d",
    "max_pool2d_backward",
    "max_pool3d",
    "max_pool3d_backward",
    "max_unpool1d",
    "max_unpool1d_backward",
    "max_unpool2d",
    "max_unpool2d_backward",
    "max_unpool3d",
    "max_unpool3d_backward",
    "median_pool",
    "median_pool_backward",
    "min_pool",
    "min_pool_backward",
    "mm",
    "normalize",
    "pool_output_shape",
    "ps_roi_pool",
    "ps_roi_pool_backward",
    "rms_norm",
    "roi_align",
    "roi_align_backward",
    "roi_pool",
    "roi_pool_backward",
    "soft_pool",
    "soft_pool_backward",
    "softmax",
    "spatial_pyramid_pool",
    "spatial_pyramid_pool_backward",
    "stochastic_depth",
    "stochastic_pool",
    "stochastic_pool_backward",
]


def __dir__() -> list[str]:
    return __all__
