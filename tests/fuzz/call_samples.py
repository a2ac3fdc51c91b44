"""One small valid call of every function of cenote.functional that is no pool: positional arguments and keywords."""

from __future__ import annotations

from typing import Any

import numpy as np

import cenote.functional as F

Call = tuple[tuple[Any, ...], dict[str, Any]]
_BINARY = (
    "add sub mul div floor_divide remainder fmod pow maximum minimum eq ne lt le gt ge logical_and logical_or "
    "logical_xor"
)
_BITS = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift"


def samples(rng: np.random.Generator, dtype: np.dtype[Any]) -> dict[str, Call]:
    """Arrays of floats have this type. Whoever asks owns them."""

    def x(*shape: int) -> Any:
        return np.asarray(rng.standard_normal(shape)).astype(dtype)

    def whole(high: int, *shape: int) -> Any:
        return rng.integers(0, high, shape)

    def call(*arguments: Any, **keywords: Any) -> Call:
        return arguments, keywords

    places = whole(4, 3, 4)
    made = {
        **{name: call(x(3, 4), x(3, 4)) for name in _BINARY.split()},
        **{name: call(whole(5, 3, 4), whole(5, 3, 4)) for name in _BITS.split()},
        "bitwise_not": call(whole(5, 3, 4)),
        "clamp": call(x(3, 4), -0.5, 0.5),
        "to": call(x(3, 4), "int32"),
        "threshold": call(x(3, 4), 0.1, 2.0),
        "prelu": call(x(2, 3, 4), x(3)),
        "addmm": call(x(3, 5), x(3, 4), x(4, 5), beta=0.5, alpha=2.0),
        "bmm": call(x(2, 3, 4), x(2, 4, 5)),
        "mm": call(x(3, 4), x(4, 5)),
        "matmul": call(x(2, 3, 4), x(4, 5)),
        "linear": call(x(3, 4), x(5, 4), x(5)),
        "scaled_dot_product_attention": call(
            x(2, 2, 3, 4), x(2, 2, 5, 4), x(2, 2, 5, 4), is_causal=True, scale=0.5
        ),
        "embedding_bag": call(
            whole(6, 7), x(6, 5), np.array([0, 3]), mode="sum", per_sample_weights=x(7), padding_idx=2
        ),
        "nms": call(np.cumsum(abs(x(6, 4)), 1), x(6), 0.5),
        "embedding": call(whole(6, 3, 4), x(6, 5), padding_idx=1),
        "gather": call(x(3, 4), 1, places),
        "index_select": call(x(3, 4), 0, whole(3, 5)),
        "take": call(x(3, 4), whole(12, 5)),
        "take_along_dim": call(x(3, 4), places, 1),
        "masked_select": call(x(3, 4), x(3, 4) > 0),
        "nonzero": call(x(3, 4), as_tuple=False),
        "one_hot": call(whole(4, 3), 4, on_value=2, off_value=1, dtype="float32"),
        "topk": call(x(3, 9), 4, 1, True, True),
        "where": call(x(3, 4) > 0, x(3, 4), x(3, 4)),
        "scatter": call(x(3, 4), 1, places, x(3, 4), reduce="add"),
        "scatter_add": call(x(3, 4), 1, places, x(3, 4)),
        "scatter_reduce": call(x(3, 4), 1, places, x(3, 4), "mean", include_self=False),
        **{f"conv{n}d": call(x(2, 4, *[6] * n), x(6, 2, *[3] * n), x(6), 1, 1, 1, 2) for n in (1, 2, 3)},
        **{f"conv_transpose{n}d": call(x(2, 4, *[4] * n), x(4, 3, *[3] * n), x(6), 2, 1, 1, 2, 1) for n in (1, 2, 3)},
        "cat": call([x(3, 4), x(2, 4)], 0),
        "stack": call([x(3, 4), x(3, 4)], 1),
        "channel_shuffle": call(x(2, 6, 4), 3),
        "flip": call(x(3, 4), (0, 1)),
        "pad": call(x(3, 4), (1, 2), "constant", 0.5),
        "permute": call(x(3, 4, 2), (2, 0, 1)),
        "pixel_shuffle": call(x(2, 8, 3, 3), 2),
        "pixel_unshuffle": call(x(2, 2, 4, 6), 2),
        "repeat_interleave": call(x(3, 4), 2, 1),
        "roll": call(x(3, 4), (1, 2), (0, 1)),
        "split": call(x(7, 4), 3, 0),
        "tile": call(x(3, 4), (2, 2)),
        "transpose": call(x(3, 4), 0, 1),
        "batch_norm": call(x(2, 3, 4), x(3), abs(x(3)), x(3), x(3), False, 0.1, 1e-5),
        "group_norm": call(x(2, 6, 4), 3, x(6), x(6), 1e-5),
        "instance_norm": call(x(2, 3, 4), None, None, x(3), x(3), True, 0.1, 1e-5),
        "layer_norm": call(x(3, 4), (4,), x(4), x(4), 1e-5),
        "rms_norm": call(x(3, 4), (4,), x(4), 1e-5),
        "local_response_norm": call(x(2, 6, 4), 3, 1e-4, 0.75, 1.0),
        "normalize": call(x(3, 4), 2.0, 1, 1e-12),
        "stochastic_depth": call(x(3, 4), 0.5, "row", seed=3),
        **{name: call(x(2, 3, 4), 0.5, seed=3) for name in
           ("alpha_dropout", "dropout", "dropout1d", "dropout2d", "feature_alpha_dropout")},
        "dropout3d": call(x(2, 3, 2, 2, 2), 0.5, seed=3),
        **{name: call(x(3, 4), 1, True) for name in ("amax", "amin", "logsumexp", "mean", "prod", "sum", "softmax",
                                                      "log_softmax", "argmax", "argmin", "sort", "argsort")},
        **{name: call(x(3, 4), 1) for name in ("cumprod", "cumsum", "softmax", "log_softmax")},
        **{name: call(x(3, 4), 1, correction=0, keepdim=True) for name in ("std", "var")},
        "norm": call(x(3, 4), 3.0, 1, True),
        "affine_grid": call(x(2, 2, 3), (2, 3, 4, 5), True),
        "grid_sample": call(x(2, 3, 4, 5), x(2, 3, 2, 2), "bilinear", "zeros", True),
        "deform_conv2d": call(
            x(1, 2, 5, 5), x(1, 18, 5, 5), x(3, 2, 3, 3), x(3), (1, 1), (1, 1), (1, 1), x(1, 9, 5, 5)
        ),
        "fold": call(x(1, 12, 12), (5, 4), (2, 2), 1, 0, 1),
        "unfold": call(x(1, 3, 5, 4), (2, 2), 1, 0, 1),
        "interpolate": call(x(1, 2, 4, 5), (7, 8), None, "bilinear", False, None, True),
        "pool_output_shape": call((1, 2, 8, 8), 3, 2, 1, 1, False),
    }  # fmt: skip
    others = {name for name in F.__all__ if not is_pool(name) and name not in ("explain", *made)}
    made.update(
        {name: call(x(3, 4)) for name in others - {"Traced", "fused", "gru", "lstm", "rnn_relu", "rnn_tanh"}}
    )
    for name, gates in {"rnn_relu": 1, "rnn_tanh": 1, "gru": 3, "lstm": 4}.items():
        weights = [x(8 * gates, 4), x(8 * gates, 8), x(8 * gates), x(8 * gates)]
        start = (x(1, 2, 8), x(1, 2, 8)) if name == "lstm" else x(1, 2, 8)
        made[name] = call(x(5, 2, 4), start, weights, True, 1, 0.0, False, False, False)
    return made


def is_pool(name: str) -> bool:
    return (
        ("pool" in name and name != "pool_output_shape")
        or name.endswith("_backward")
        or name in ("dilation", "erosion")
    )
