"""Random layers of all kinds that are cut into tiles, as arguments of `cenote.tiling.plan`."""

from __future__ import annotations

import random
from typing import Any

import cenote

POOLS = (
    "maxpool", "maxpool", "maxpool", "minpool", "avgpool", "avgpool", "lppool", "adaptive_maxpool",
    "adaptive_avgpool", "global_maxpool", "global_avgpool",
)  # fmt: skip


def random_layer(chance: random.Random, most: int = 4000) -> tuple[str, dict[str, Any]]:
    """A kind and its arguments: 1-D to 3-D, tiny to large; at most `most` outputs per plane."""
    while True:
        kind = "conv" if chance.random() < 0.3 else chance.choice(POOLS)
        rank = chance.choice((1, 2, 2, 2, 3))
        largest = {1: 2000, 2: 60, 3: 14}[rank]
        size = [max(1, round(largest ** chance.random())) for _ in range(rank)]
        groups = chance.choice((1, 1, 2, 3, 8))
        channels = groups * max(1, round((24 if kind == "conv" else 96) ** chance.random()))
        given: dict[str, Any] = {"input": (chance.choice((1, 1, 2, 3)), channels, *size)}
        if kind.startswith("adaptive"):
            given["output"] = tuple(chance.randint(1, max(1, extent)) for extent in size)
        elif not kind.startswith("global"):
            kernel = [chance.choice((1, 2, 2, 3, 3, 5, 7)) for _ in size]
            given |= {
                "kernel": tuple(kernel),
                "stride": tuple(chance.choice((1, 2, 2, 3, k)) for k in kernel),
            }
            dilation = tuple(chance.choice((1, 1, 1, 2)) for _ in size)
            given["dilation"] = dilation
            reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
            if chance.random() < 0.6:
                given["padding"] = tuple(
                    (chance.randint(0, r // 2), chance.randint(0, r // 2)) for r in reach
                )
        _extras(kind, given, groups, chance)
        if _is_wanted(kind, given, most):
            return kind, given


def _is_wanted(kind: str, given: dict[str, Any], most: int) -> bool:
    """Whether the arguments make a layer, of at most so many outputs per plane."""
    try:
        found = cenote.tiling.plan(kind, **given, hardware={"base": "npu", "ub_bytes": 1 << 40})
    except cenote.CenoteError:
        return False
    return found.layer.cells // found.layer.planes <= most


def _extras(kind: str, given: dict[str, Any], groups: int, chance: random.Random) -> None:
    if kind in ("maxpool", "minpool", "avgpool", "lppool"):
        given["ceil_mode"] = chance.random() < 0.3
    if kind in ("maxpool", "minpool", "adaptive_maxpool") and chance.random() < 0.3:
        given["indices"] = chance.choice(("int64", "int32"))
    if kind == "avgpool":
        given["count_include_pad"] = chance.random() < 0.5
        given["divisor_override"] = chance.choice((0, 0, 0, 3))
    if kind == "lppool":
        given["p"] = chance.choice((1.0, 2.0, 3.0))
    if kind == "conv":
        channels = given["input"][1]
        per_group = max(1, round((24) ** chance.random()))
        if chance.random() < 0.25:
            groups, per_group = channels, 1  # depthwise
        given |= {"groups": groups, "filters": groups * per_group, "bias": chance.random() < 0.5}
    integers = ("maxpool", "minpool", "avgpool", "adaptive_maxpool", "adaptive_avgpool", "global_maxpool")
    if kind in integers and chance.random() < 0.4:
        given["dtype"] = chance.choice(("int8", "uint8", "int32", "int16"))
    elif chance.random() < 0.15:
        given["dtype"] = chance.choice(("float64", "float16", "bfloat16"))
    if given.get("dtype", "float32") == "float32" and "indices" not in given and chance.random() < 0.2:
        given["fused"] = chance.choice((("relu",), ("relu", "sigmoid")))


NEWER = (
    "maxpool_backward", "maxpool_backward", "avgpool_backward", "avgpool_backward", "adaptive_maxpool_backward",
    "adaptive_avgpool_backward", "global_avgpool_backward", "conv_transpose", "conv_transpose", "matmul", "matmul",
    "layer_norm", "large window",
)  # fmt: skip


def newer_layer(chance: random.Random, most: int = 4000) -> tuple[str, dict[str, Any]]:
    """A kind and its arguments: gradients of pools, transposed convolutions, products, layer normalisations, and pools
    whose windows are up to a whole map of 300x300."""
    while True:
        kind = chance.choice(NEWER)
        if kind == "large window":
            kind, given = _large_window(chance)
        elif kind == "matmul":
            given = _product(chance)
        elif kind == "layer_norm":
            given = {"input": _sizes(chance, chance.choice((2, 3)), 300), "affine": chance.random() < 0.7}
        else:
            given = _turned(kind, chance)
        if chance.random() < 0.15:
            given["dtype"] = chance.choice(("float64", "float16"))
        if _is_wanted(kind, given, most):
            return kind, given


def _sizes(chance: random.Random, count: int, most: int) -> tuple[int, ...]:
    return tuple(max(1, round(most ** chance.random())) for _ in range(count))


def _product(chance: random.Random) -> dict[str, Any]:
    m, k, n = _sizes(chance, 3, 400)
    batch = _sizes(chance, chance.choice((0, 0, 1, 2)), 6)
    shared = chance.random() < 0.5
    return {"input": (*batch, m, k), "other": (k, n) if shared else (*batch, k, n)}


def _large_window(chance: random.Random) -> tuple[str, dict[str, Any]]:
    rank = chance.choice((1, 2, 2))
    size = tuple(round((60_000 if rank == 1 else 300) ** (0.6 + 0.4 * chance.random())) for _ in range(rank))
    given: dict[str, Any] = {"input": (1, chance.randint(1, 4), *size)}
    kind = chance.choice(
        ("maxpool", "avgpool", "lppool", "global_avgpool", "global_maxpool", "global_lppool")
    )
    if not kind.startswith("global"):
        kernel = tuple(min(4_000, max(1, round(extent * (0.5 + 0.5 * chance.random())))) for extent in size)
        given |= {"kernel": kernel, "stride": tuple(max(1, k // chance.choice((1, 2, 3))) for k in kernel)}
        if chance.random() < 0.5:
            given["padding"] = tuple((chance.randint(0, k // 2), chance.randint(0, k // 2)) for k in kernel)
    return kind, given


def _turned(kind: str, chance: random.Random) -> dict[str, Any]:
    """Arguments of gradients and transposed convolutions."""
    rank = chance.choice((1, 2, 2, 2, 3))
    largest = {1: 2000, 2: 60, 3: 14}[rank]
    size = _sizes(chance, rank, largest if "pool" in kind else largest // 2)
    groups = chance.choice((1, 1, 2, 3))
    channels = groups * max(1, round((60 if "pool" in kind else 16) ** chance.random()))
    given: dict[str, Any] = {"input": (chance.choice((1, 1, 2)), channels, *size)}
    if kind.startswith("adaptive"):
        given["output"] = tuple(chance.randint(1, max(1, extent)) for extent in size)
    elif not kind.startswith("global"):
        kernel = tuple(chance.choice((1, 2, 2, 3, 3, 4, 5)) for _ in size)
        given |= {"kernel": kernel, "stride": tuple(chance.choice((1, 2, 2, 3, k)) for k in kernel)}
        given["dilation"] = tuple(chance.choice((1, 1, 1, 2)) for _ in size)
        if chance.random() < 0.6:
            given["padding"] = tuple((chance.randint(0, k // 2), chance.randint(0, k // 2)) for k in kernel)
    if kind == "conv_transpose":
        if chance.random() < 0.25:
            groups = channels
        given |= {
            "groups": groups,
            "filters": groups * _sizes(chance, 1, 16)[0],
            "bias": chance.random() < 0.5,
        }
        given["output_padding"] = tuple(chance.randint(0, step - 1) for step in given["stride"])
    elif kind.startswith("avgpool"):
        given |= {"ceil_mode": chance.random() < 0.3, "count_include_pad": chance.random() < 0.5}
    elif kind.startswith("maxpool"):
        given |= {"ceil_mode": chance.random() < 0.3, "indices": chance.choice((None, "int64", "int32"))}
    return given
