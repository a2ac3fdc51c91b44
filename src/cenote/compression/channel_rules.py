"""Operators, as channels pass through them: a rule for each that treats channels apart, or adds them with weights.

A rule returns the channels of a node's results, or None where it does not understand the node: then the channels that
the node reads stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import NodeProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from cenote.compression.channels import Channels, ChannelSets, Count, CutConstant, Shuffle, WeightedSum
from cenote.compression.network import SharedNetwork
from cenote.core.text import split_words
from cenote.core.types import Array
from cenote.quantization.network import attribute, read_inside

Rule = Callable[[ChannelSets, int, NodeProto], list[Channels] | None]

_SINCE_BROADCASTING = 7  # the opset in which Add and its like broadcast as NumPy does
_SINCE_SIZES = 13  # the opset in which Split reads its sizes


def followed(network: SharedNetwork, threshold: float) -> ChannelSets:
    """Follow channels through a network; filters whose norm is at most a part of the largest of their layer's count
    as zeros."""
    sets, done = ChannelSets(network, threshold), set[int]()
    for place, node in enumerate(network.nodes):
        if place in done:
            continue
        rule = _RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        made = None if rule is None else rule(sets, place, node)
        names = [name for name in node.output if name]
        if made is not None and sets.shuffles and sets.shuffles[-1].places[0] == place:
            done.update(sets.shuffles[-1].places)
            names = [network.nodes[sets.shuffles[-1].places[-1]].output[0]]
        if made is None or len(made) != len(names):
            for each in _read(sets, node):
                sets.block(each.ids)
            continue
        sets.values.update(zip(names, made, strict=True))
    outside = {str(each.name) for each in network.shell.graph.output}
    for name in outside.union(*map(read_inside, network.nodes)):
        if name in sets.values:
            sets.block(sets.values[name].ids)
    return sets


def _read(sets: ChannelSets, node: NodeProto) -> list[Channels]:
    return [sets.values[name] for name in node.input if name in sets.values]


def _constant(sets: ChannelSets, node: NodeProto, position: int) -> Array | None:
    """Return the constant that a node reads at a position; None where it reads none, or a value."""
    name = node.input[position] if position < len(node.input) else ""
    return sets.network.array(name) if name in sets.network.tensors else None


def _is_given(node: NodeProto, position: int) -> bool:
    return position < len(node.input) and bool(node.input[position])


def _is_padded(node: NodeProto) -> bool:
    """Whether windows may reach past the map."""
    if attribute(node, "auto_pad", b"NOTSET") not in (b"", b"NOTSET", b"VALID"):
        return True
    return bool(attribute(node, "ceil_mode", 0)) or any(attribute(node, "pads", [0]))


def _only_zeros(constants: Array) -> Array:
    """Return the constants that padding leaves as they are."""
    return np.where(constants == 0, 0.0, np.nan)


def _layer(
    sets: ChannelSets, place: int, read: Channels, weights: Array, bias: Array, seen: Array
) -> Channels | None:
    """Return the results of a layer of weights (results, channels of a group, rest) on constants that it has seen; it
    has a group for as many channels as there are. None for weights that are not finite."""
    results, depth = weights.shape[:2]
    sums, squares = np.empty((results, depth)), np.empty((results, depth))
    for row, each in enumerate(
        weights
    ):  # row by row: float64 of all would take several times the weights' memory
        wide = each.reshape(depth, -1).astype(np.float64)
        sums[row], squares[row] = wide.sum(axis=1), np.square(wide).sum(axis=1)
    if not np.isfinite(squares).all():
        return None
    groups = len(read) // depth
    of_result = np.repeat(np.arange(groups), results // groups)
    constants = seen.reshape(groups, depth)[of_result]
    varying = np.isnan(constants)
    norms = np.sqrt(squares.sum(axis=1))
    small = np.sqrt(np.where(varying, squares, 0).sum(axis=1)) <= sets.threshold * norms.max(initial=0)
    totals = bias + (np.where(varying, 0, constants) * sums).sum(axis=1)
    made = Channels(sets.fresh(norms.tolist()), _finite(np.where(small, totals, np.nan)), read.rank)
    if groups == 1:
        sets.sums.append(WeightedSum(place, read.ids, made.ids, seen, sums, squares > 0))
        return made
    for channel in range(depth):  # a group goes as a whole
        sets.join(made.ids, read.ids.reshape(groups, depth)[of_result, channel])
    sets.counts.append(Count(place, made.ids, results // groups))
    return made


def _finite(constants: Array) -> Array:
    return np.where(np.isfinite(constants.astype(np.float32)), constants, np.nan)


def _convolution(sets: ChannelSets, place: int, node: NodeProto) -> list[Channels] | None:
    weights, bias = _constant(sets, node, 1), _constant(sets, node, 2)
    transposed, groups = node.op_type == "ConvTranspose", attribute(node, "group", 1)
    if weights is None or weights.dtype != np.float32 or 0 in weights.shape or weights.ndim < 3:
        return None
    if (bias is None and _is_given(node, 2)) or (transposed and groups != 1):
        return None
    turned = np.moveaxis(weights, 0, 1) if transposed else weights
    count = turned.shape[1] * groups
    read = sets.values.get(node.input[0]) or sets.unknown(count, weights.ndim)
    if len(read) != count or read.flat or len(turned) % groups:
        return None
    # Each pixel of a transposed convolution adds other taps, so that only zeros are seen everywhere.
    seen = _only_zeros(read.constants) if transposed or _is_padded(node) else read.constants
    made = _layer(sets, place, read, turned, np.zeros(()) if bias is None else bias, seen)
    if made is None:
        return None
    sets.cuts.append(CutConstant(place, 1, int(transposed), made.ids))
    if groups == 1:
        sets.cuts.append(CutConstant(place, 1, int(not transposed), read.ids))
    if bias is not None:
        sets.cuts.append(CutConstant(place, 2, 0, made.ids))
    return [made]


def _product(sets: ChannelSets, place: int, node: NodeProto) -> list[Channels] | None:
    weights, bias = _constant(sets, node, 1), _constant(sets, node, 2)
    usual = ("alpha", 1.0), ("beta", 1.0), ("transA", 0)
    if weights is None or weights.dtype != np.float32 or weights.ndim != 2 or 0 in weights.shape:
        return None
    if any(attribute(node, name, value) != value for name, value in usual):
        return None
    if bias is None and _is_given(node, 2):
        return None
    axis = 0 if attribute(node, "transB", 0) else 1  # of the results
    turned = np.moveaxis(weights, axis, 0)
    results, depth = turned.shape
    read = sets.values.get(node.input[0]) or sets.unknown(depth, 2)
    if read.rank != 2 or depth % len(read) or (not read.flat and depth != len(read)):
        return None
    split = turned.reshape(results, len(read), -1)
    # With a bias of each row results are no constants.
    rows = bias is not None and bias.ndim == 2 and len(bias) > 1
    shown = np.float64(np.nan) if rows else np.zeros(()) if bias is None else bias.reshape(-1)
    made = _layer(sets, place, read, split, np.asarray(shown), read.constants)
    if made is None:
        return None
    sets.cuts.append(CutConstant(place, 1, axis, made.ids))
    sets.cuts.append(CutConstant(place, 1, 1 - axis, np.repeat(read.ids, depth // len(read))))
    if bias is not None and bias.ndim and bias.shape[-1] == results:
        sets.cuts.append(CutConstant(place, 2, bias.ndim - 1, made.ids))
    return [made]


def _elementwise(sets: ChannelSets, place: int, node: NodeProto) -> list[Channels] | None:
    inputs: list[Channels | Array | None] = []
    for position, name in enumerate(node.input):
        each = sets.values.get(name) if name in sets.values else _constant(sets, node, position)
        if each is None and name:
            return None
        inputs.append(each)
    read = [each for each in inputs if isinstance(each, Channels)]
    if not read or (len(inputs) > 1 and sets.network.opset < _SINCE_BROADCASTING):
        return None
    first = read[0]
    alike = {(len(each), each.rank, each.flat) for each in read}
    if len(alike) > 1 or (first.flat and len(read) > 1):
        return None
    cuts, content = list[CutConstant](), list[Array | None]()
    for position, x in enumerate(inputs):
        if x is None or isinstance(x, Channels):
            content.append(None if x is None else x.constants)
            continue
        axis = x.ndim - first.rank + 1  # of channels
        if x.ndim > first.rank or (
            axis >= 0 and x.shape[axis] != 1 and (first.flat or x.shape[axis] != len(first))
        ):
            return None
        if axis >= 0 and x.shape[axis] != 1:
            cuts.append(CutConstant(place, position, axis, first.ids))
        content.append(
            x.reshape(-1) if x.size == (x.shape[axis] if axis >= 0 else 1) else np.full((), np.nan)
        )
    for each in read[1:]:
        sets.join(first.ids, each.ids)
    sets.cuts.extend(cuts)
    return [Channels(first.ids, _through(sets.network, node, content, first), first.rank, first.flat)]


def _through(
    network: SharedNetwork, node: NodeProto, content: Sequence[Array | None], like: Channels
) -> Array:
    """Return what a node of one element makes of constants, by ONNX's own reference; a NaN is anything."""
    known = ~np.any([np.broadcast_to(np.isnan(x), len(like)) for x in content if x is not None], axis=0)
    if node.op_type == "Mul":
        zero = np.any([np.broadcast_to(x == 0, len(like)) for x in content if x is not None], axis=0)
        known = known | zero
    if not known.any():
        return np.full(len(like), np.nan)
    copy, named = NodeProto(), dict[str, Array]()
    copy.CopyFrom(node)
    for position, x in enumerate(content):
        if x is not None:
            copy.input[position] = f"x{position}"
            shaped = (
                x.reshape(1, len(x), *[1] * (like.rank - 2))
                if x.ndim and len(x) == len(like)
                else x.reshape(())
            )
            named[f"x{position}"] = np.where(np.isnan(shaped), 0, shaped).astype(np.float32)
    del copy.output[:]
    copy.output.append("y")
    types = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (*named, "y")]
    opsets = [helper.make_opsetid("", network.opset)]
    message = helper.make_model(
        helper.make_graph([copy], "node", types[:-1], types[-1:]), opset_imports=opsets
    )
    with np.errstate(all="ignore"):
        (found,) = ReferenceEvaluator(message).run(None, named)
    return _finite(np.where(known, np.asarray(found).reshape(-1), np.nan))


def _normalisation(sets: ChannelSets, place: int, node: NodeProto) -> list[Channels] | None:
    read = sets.values.get(node.input[0])
    content = [_constant(sets, node, position) for position in range(1, 5)]
    if read is None or read.flat or attribute(node, "training_mode", 0):
        return None
    if any(x is None or x.shape != (len(read),) for x in content):
        return None
    scale, bias, mean, variance = [x.astype(np.float64) for x in content if x is not None]
    factor = scale / np.sqrt(variance + attribute(node, "epsilon", 1e-5))
    sets.cuts.extend(CutConstant(place, position, 0, read.ids) for position in range(1, 5))
    made = np.where(factor == 0, bias, (read.constants - mean) * factor + bias)
    return [Channels(read.ids, _finite(made), read.rank)]


def _pool(sets: ChannelSets, place: int, node: NodeProto) -> list[Channels] | None:
    del place
    read = sets.values.get(node.input[0])
    if read is None or read.flat:
        return None
    averaged = node.op_type == "AveragePool" and _is_padded(node)  # zeros beside the map may count
    return [Channels(read.ids, _only_zeros(read.constants) if averaged else read.constants, read.rank)]


def _mean(sets: ChannelSets, place: int, node: NodeProto) -> list[Channels] | None:
    del place
    read = sets.values.get(node.input[0])
    given = _constant(sets, node, 1) if _is_given(node, 1) else np.array(attribute(node, "axes", [0][:0]))
    if read is None or read.flat or given is None or not len(given):
        return None
    axes = {int(axis) % read.rank for axis in given}
    keeps = bool(attribute(node, "keepdims", 1))
    if 1 in axes or (0 in axes and not keeps):
        return None
    return [Channels(read.ids, read.constants, read.rank if keeps else read.rank - len(axes))]


def _flatten(sets: ChannelSets, place: int, node: NodeProto) -> list[Channels] | None:
    del place
    read = sets.values.get(node.input[0])
    if read is None or attribute(node, "axis", 1) not in (1, 1 - read.rank):
        return None
    return [Channels(read.ids, read.constants, 2, read.flat or read.rank > 2)]


def _concatenation(sets: ChannelSets, place: int, node: NodeProto) -> list[Channels] | None:
    del place
    read = _read(sets, node)
    if (
        len(read) < len(node.input)
        or len({each.rank for each in read}) > 1
        or any(each.flat for each in read)
    ):
        return None
    if attribute(node, "axis", 1) not in (1, 1 - read[0].rank):
        return None
    ids, constants = (
        np.concatenate([each.ids for each in read]),
        np.concatenate([each.constants for each in read]),
    )
    return [Channels(ids, constants, read[0].rank)]


def _split(sets: ChannelSets, place: int, node: NodeProto) -> list[Channels] | None:
    read, sizes = sets.values.get(node.input[0]), _constant(sets, node, 1)
    if read is None or read.flat or sizes is None or sets.network.opset < _SINCE_SIZES:
        return None
    if attribute(node, "axis", 0) not in (1, 1 - read.rank) or sizes.sum() != len(read) or len(sizes) < 1:
        return None
    ends = np.cumsum(sizes)[:-1]
    pieces = list(zip(np.split(read.ids, ends), np.split(read.constants, ends), strict=True))
    sets.counts.extend(Count(place, ids, 1, 1, entry) for entry, (ids, _) in enumerate(pieces))
    return [Channels(ids, constants, read.rank) for ids, constants in pieces]


def _resize(sets: ChannelSets, place: int, node: NodeProto) -> list[Channels] | None:
    read = sets.values.get(node.input[0])
    if read is None or read.flat or attribute(node, "axes", []):
        return None
    if attribute(node, "coordinate_transformation_mode", b"") == b"tf_crop_and_resize":
        return None
    at = 2 if node.op_type == "Resize" and sets.network.opset > 10 else 1
    scales, sizes = _constant(sets, node, at), _constant(sets, node, 3)
    made = [Channels(read.ids, read.constants, read.rank)]
    if scales is not None and scales.size:
        return made if len(scales) == read.rank and scales[1] == 1 else None
    stretched = attribute(node, "keep_aspect_ratio_policy", b"stretch") == b"stretch"
    if sizes is None or len(sizes) != read.rank or sizes[1] != len(read) or not stretched:
        return None
    sets.counts.append(Count(place, read.ids, 1, 3, 1))
    return made


def _shuffle(sets: ChannelSets, place: int, node: NodeProto) -> list[Channels] | None:
    """Reshape to (n, groups, channels, ...), Transpose of these two axes, Reshape back."""
    read, network = sets.values.get(node.input[0]), sets.network
    transposed = _only_reader(network, node.output[0])
    last = None if transposed is None else _only_reader(network, network.nodes[transposed].output[0])
    if read is None or read.flat or transposed is None or last is None:
        return None
    nodes = [network.nodes[each] for each in (place, transposed, last)]
    if [each.op_type for each in nodes] != ["Reshape", "Transpose", "Reshape"]:
        return None
    shapes = sets.shapes
    before, apart, after = (
        shapes.get(name) for name in (nodes[0].input[0], nodes[0].output[0], nodes[2].output[0])
    )
    if before is None or apart is None or before != after or len(apart) != read.rank + 1:
        return None
    groups, depth = apart[1:3]
    if isinstance(groups, str) or isinstance(depth, str) or groups * depth != len(read):
        return None
    if (apart[0], *apart[3:]) != (before[0], *before[2:]) or attribute(nodes[1], "perm", []) != [
        0,
        2,
        1,
        *range(3, len(apart)),
    ]:
        return None
    order = np.arange(len(read)).reshape(groups, depth).T.reshape(-1)
    sets.shuffles.append(Shuffle((place, transposed, last), read.ids, order))
    return [Channels(read.ids[order], read.constants[order], read.rank)]


def _only_reader(network: SharedNetwork, name: str) -> int | None:
    """Return the place of the node that alone reads a value, as its first input."""
    outside = {str(each.name) for each in network.shell.graph.output}.union(*map(read_inside, network.nodes))
    places = [place for place, node in enumerate(network.nodes) if name in node.input]
    alone = len(places) == 1 and name not in outside and network.nodes[places[0]].input[0] == name
    return places[0] if alone else None


_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        split_words(
            "Relu LeakyRelu Clip Sigmoid HardSigmoid HardSwish Tanh Elu Selu Celu Softplus Softsign Mish Gelu Erf Exp"
            " Abs Neg Sqrt Identity PRelu Add Sub Mul Div Max Min Sum Mean Pow"
        ),
        _elementwise,
    ),
    **dict.fromkeys(split_words("MaxPool AveragePool GlobalAveragePool GlobalMaxPool"), _pool),
    **dict.fromkeys(split_words("ReduceMean ReduceMax"), _mean),
    **dict.fromkeys(split_words("Conv ConvTranspose"), _convolution),
    **dict.fromkeys(split_words("Resize Upsample"), _resize),
    "Gemm": _product,
    "BatchNormalization": _normalisation,
    "Flatten": _flatten,
    "Concat": _concatenation,
    "Split": _split,
    "Reshape": _shuffle,
}
