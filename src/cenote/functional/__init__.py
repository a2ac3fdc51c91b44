"""Functions on arrays, named and defaulted as in PyTorch: every pooling, elementwise functions, reductions, movement,
selection, indexing, normalisation, dropout, products and more.

    import cenote.functional as F

    y = F.max_pool2d(x, 3, stride=2, padding=1)

Inputs are NumPy arrays or offer DLPack (PyTorch, JAX, ...); the result is of the same kind. docs/pooling_semantics.md
says what each pool does where frameworks disagree. Each differentiable pool `f` has an `f_backward`.
"""

from __future__ import annotations

from cenote.functional.activations import (
    celu,
    elu,
    gelu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    threshold,
)
from cenote.functional.attention import (
    scaled_dot_product_attention,
)
from cenote.functional.bags import (
    embedding_bag,
    nms,
)
from cenote.functional.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from cenote.functional.elementwise import (
    abs,
    add,
    bitwise_and,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    clamp,
    div,
    eq,
    floor_divide,
    fmod,
    ge,
    gt,
    isfinite,
    isinf,
    isnan,
    le,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    pow,
    remainder,
    sign,
    square,
    sub,
    to,
)
from cenote.functional.indexing import (
    embedding,
    gather,
    index_select,
    take,
    take_along_dim,
)
from cenote.functional.linear import (
    addmm,
    bmm,
    linear,
    matmul,
    mm,
)
from cenote.functional.masks import (
    masked_select,
    nonzero,
)
from cenote.functional.movement import (
    cat,
    channel_shuffle,
    flip,
    pad,
    permute,
    pixel_shuffle,
    pixel_unshuffle,
    repeat_interleave,
    roll,
    split,
    stack,
    tile,
    transpose,
)
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
from cenote.functional.pool.average import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
)
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
from cenote.functional.recorder import (
    Traced,
    fused,
)
from cenote.functional.reductions import (
    amax,
    amin,
    cumprod,
    cumsum,
    logsumexp,
    mean,
    norm,
    prod,
    std,
    sum,
    var,
)
from cenote.functional.scattering import (
    scatter,
    scatter_add,
    scatter_reduce,
)
from cenote.functional.selection import (
    argmax,
    argmin,
    argsort,
    one_hot,
    sort,
    topk,
    where,
)
from cenote.functional.shape import pool_output_shape
from cenote.functional.softmax import log_softmax, softmax
from cenote.functional.unary import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    ceil,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    log,
    log1p,
    log2,
    log10,
    reciprocal,
    round,
    rsqrt,
    sin,
    sinh,
    sqrt,
    tan,
    trunc,
)

__all__ = [
    "Traced", "abs", "acos", "acosh", "adaptive_avg_pool1d", "adaptive_avg_pool1d_backward",
    "adaptive_avg_pool2d", "adaptive_avg_pool2d_backward", "adaptive_avg_pool3d",
    "adaptive_avg_pool3d_backward", "adaptive_max_pool1d", "adaptive_max_pool1d_backward",
    "adaptive_max_pool2d", "adaptive_max_pool2d_backward", "adaptive_max_pool3d",
    "adaptive_max_pool3d_backward", "add", "addmm", "alpha_dropout", "amax", "amin", "argmax", "argmin",
    "argsort", "asin", "asinh", "atan", "atanh", "avg_pool1d", "avg_pool1d_backward", "avg_pool2d",
    "avg_pool2d_backward", "avg_pool3d", "avg_pool3d_backward", "batch_norm", "bitwise_and",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "blur_pool",
    "blur_pool_backward", "bmm", "cat", "ceil", "celu", "channel_shuffle", "clamp", "conv1d", "conv2d",
    "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cos", "cosh", "cumprod", "cumsum",
    "dilation", "dilation_backward", "div", "dropout", "dropout1d", "dropout2d", "dropout3d", "elu",
    "embedding", "embedding_bag", "eq", "erf", "erosion", "erosion_backward", "exp", "exp2", "expm1",
    "feature_alpha_dropout", "flip", "floor", "floor_divide", "fmod", "fractional_max_pool2d",
    "fractional_max_pool2d_backward", "fractional_max_pool3d", "fractional_max_pool3d_backward", "fused",
    "gather", "ge", "gelu", "gem_pool", "gem_pool_backward", "global_avg_pool", "global_avg_pool_backward",
    "global_lp_pool", "global_lp_pool_backward", "global_max_pool", "global_max_pool_backward", "group_norm",
    "gt", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "index_select", "instance_norm", "isfinite",
    "isinf", "isnan", "layer_norm", "le", "leaky_relu", "linear", "local_response_norm", "log", "log1p",
    "log2", "log10", "log_softmax", "logical_and", "logical_not", "logical_or", "logical_xor", "logsigmoid",
    "logsumexp", "lp_pool1d", "lp_pool1d_backward", "lp_pool2d", "lp_pool2d_backward", "lp_pool3d",
    "lp_pool3d_backward", "lt", "masked_select", "matmul", "max_pool1d", "max_pool1d_backward", "max_pool2d",
    "max_pool2d_backward", "max_pool3d", "max_pool3d_backward", "max_unpool1d", "max_unpool1d_backward",
    "max_unpool2d", "max_unpool2d_backward", "max_unpool3d", "max_unpool3d_backward", "maximum", "mean",
    "median_pool", "median_pool_backward", "min_pool", "min_pool_backward", "minimum", "mish", "mm", "mul",
    "ne", "neg", "nms", "nonzero", "norm", "normalize", "one_hot", "pad", "permute", "pixel_shuffle",
    "pixel_unshuffle", "pool_output_shape", "pow", "prelu", "prod", "ps_roi_pool", "ps_roi_pool_backward",
    "reciprocal", "relu", "relu6", "remainder", "repeat_interleave", "rms_norm", "roi_align",
    "roi_align_backward", "roi_pool", "roi_pool_backward", "roll", "round", "rsqrt",
    "scaled_dot_product_attention", "scatter", "scatter_add", "scatter_reduce", "selu", "sigmoid", "sign",
    "silu", "sin", "sinh", "soft_pool", "soft_pool_backward", "softmax", "softplus", "softshrink", "softsign",
    "sort", "spatial_pyramid_pool", "spatial_pyramid_pool_backward", "split", "sqrt", "square", "stack",
    "std", "stochastic_depth", "stochastic_pool", "stochastic_pool_backward", "sub", "sum", "take",
    "take_along_dim", "tan", "tanh", "tanhshrink", "threshold", "tile", "to", "topk", "transpose", "trunc",
    "var", "where",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
