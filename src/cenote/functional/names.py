"""Which function of `cenote.functional` is where. Made by `python -m tests.functional.interface`."""

# fmt: off
# ruff: noqa
FAMILIES: dict[str, tuple[str, ...]] = {
    "attention": (
        "scaled_dot_product_attention",
    ),
    "choice.bags": (
        "embedding_bag", "nms",
    ),
    "choice.indexing": (
        "embedding", "gather", "index_select", "take", "take_along_dim",
    ),
    "choice.masks": (
        "masked_select", "nonzero",
    ),
    "choice.order": (
        "argmax", "argmin", "argsort", "one_hot", "sort", "topk", "where",
    ),
    "choice.scattering": (
        "scatter", "scatter_add", "scatter_reduce",
    ),
    "convolution": (
        "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    ),
    "elementwise.activations": (
        "celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu",
        "logsigmoid", "mish", "prelu", "relu", "relu6", "selu", "sigmoid", "silu", "softplus", "softshrink",
        "softsign", "tanh", "tanhshrink", "threshold",
    ),
    "elementwise.arithmetic": (
        "abs", "add", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
        "bitwise_xor", "clamp", "div", "eq", "floor_divide", "fmod", "ge", "gt", "isfinite", "isinf", "isnan",
        "le", "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "maximum", "minimum", "mul",
        "ne", "neg", "pow", "remainder", "sign", "square", "sub", "to",
    ),
    "elementwise.chains": (
        "fused",
    ),
    "elementwise.recorder": (
        "Traced",
    ),
    "elementwise.unary": (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2",
        "expm1", "floor", "log", "log10", "log1p", "log2", "reciprocal", "round", "rsqrt", "sin", "sinh",
        "sqrt", "tan", "trunc",
    ),
    "movement": (
        "cat", "channel_shuffle", "flip", "pad", "permute", "pixel_shuffle", "pixel_unshuffle",
        "repeat_interleave", "roll", "split", "stack", "tile", "transpose",
    ),
    "normalization": (
        "batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "log_softmax",
        "normalize", "rms_norm", "softmax",
    ),
    "pool.adaptive": (
        "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
        "adaptive_max_pool2d", "adaptive_max_pool3d",
    ),
    "pool.average": (
        "avg_pool1d", "avg_pool2d", "avg_pool3d",
    ),
    "pool.backward": (
        "adaptive_avg_pool1d_backward", "adaptive_avg_pool2d_backward", "adaptive_avg_pool3d_backward",
        "adaptive_max_pool1d_backward", "adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward",
        "avg_pool1d_backward", "avg_pool2d_backward", "avg_pool3d_backward", "blur_pool_backward",
        "dilation_backward", "erosion_backward", "fractional_max_pool2d_backward",
        "fractional_max_pool3d_backward", "gem_pool_backward", "global_avg_pool_backward",
        "global_lp_pool_backward", "global_max_pool_backward", "lp_pool1d_backward", "lp_pool2d_backward",
        "lp_pool3d_backward", "max_pool1d_backward", "max_pool2d_backward", "max_pool3d_backward",
        "max_unpool1d_backward", "max_unpool2d_backward", "max_unpool3d_backward", "median_pool_backward",
        "min_pool_backward", "ps_roi_pool_backward", "roi_align_backward", "roi_pool_backward",
        "soft_pool_backward", "spatial_pyramid_pool_backward", "stochastic_pool_backward",
    ),
    "pool.fractional": (
        "fractional_max_pool2d", "fractional_max_pool3d",
    ),
    "pool.global_pools": (
        "global_avg_pool", "global_lp_pool", "global_max_pool",
    ),
    "pool.lp": (
        "lp_pool1d", "lp_pool2d", "lp_pool3d",
    ),
    "pool.max": (
        "dilation", "erosion", "max_pool1d", "max_pool2d", "max_pool3d", "min_pool",
    ),
    "pool.pyramid": (
        "spatial_pyramid_pool",
    ),
    "pool.regions": (
        "ps_roi_pool", "roi_align", "roi_pool",
    ),
    "pool.unpool": (
        "max_unpool1d", "max_unpool2d", "max_unpool3d",
    ),
    "pool.weighted": (
        "blur_pool", "gem_pool", "median_pool", "soft_pool", "stochastic_pool",
    ),
    "products": (
        "addmm", "bmm", "linear", "matmul", "mm",
    ),
    "random": (
        "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
        "stochastic_depth",
    ),
    "recurrent": (
        "gru", "lstm", "rnn_relu", "rnn_tanh",
    ),
    "reductions": (
        "amax", "amin", "cumprod", "cumsum", "logsumexp", "mean", "norm", "prod", "std", "sum", "var",
    ),
    "sampling": (
        "affine_grid", "deform_conv2d", "fold", "grid_sample", "interpolate", "unfold",
    ),
    "shape": (
        "pool_output_shape",
    ),
    "ways.explanation": (
        "explain",
    ),
}
