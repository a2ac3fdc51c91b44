"""Keras's masks: which steps of a sequence count, (batch, steps) booleans beside a value.

A recurrent layer skips the others: it keeps its states and repeats its output. Here the steps that count are moved to
the front, in their order; the operator runs over so many of them (`lengths`); and each step of the result takes what
the last step that counted gave.

    mask      0 1 1 0 1
    counted   0 1 2 2 3     so many steps count up to this one
    front     1 2 4 0 3     steps in the order in which the operator sees them
    result    0 a b b c     of the operator's a b c
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import UnsupportedError
from cenote.frontends.builder import GraphBuilder
from cenote.frontends.keras.layer import Decode, KerasValue, LayerCall
from cenote.frontends.tensorflow_common import words

INT32, BOOL = np.dtype(np.int32), np.dtype(np.bool_)
# Layers whose result has the mask of their input (Keras 3's supports_masking and compute_mask).
_KEEPING = words(
    "Activation ReLU LeakyReLU ELU PReLU ThresholdedReLU Dense Dropout SpatialDropout1D GaussianDropout GaussianNoise "
    "AlphaDropout ActivityRegularization BatchNormalization BatchNormalizationV1 SyncBatchNormalization "
    "LayerNormalization GroupNormalization Normalization Rescaling TimeDistributed"
)
# Layers of several values that compute otherwise where these have masks, and differently in each version of Keras.
_JOINING = words("Add Multiply Subtract Average Maximum Minimum Concatenate")
_BEHIND = 1 << 30  # more than steps of a sequence


def with_mask(call: LayerCall, result: KerasValue) -> KerasValue:
    """Return a layer's result with the mask of its input, where the layer keeps it. Raises UnsupportedError for a layer
    that computes otherwise with masks."""
    masks = {each.mask for each in call.inputs}
    kind = call.layer.kind
    if masks == {""} or result.mask:
        return result
    if kind in _JOINING and not (kind == "Concatenate" and len(masks) == 1 and _along_channels(call)):
        raise UnsupportedError("a mask on the values that it joins is not supported")
    if kind == "Softmax":
        raise UnsupportedError("a mask on its input is not supported")
    if kind in _KEEPING or kind == "Concatenate":
        return KerasValue(result.name, result.rank, result.dtype, call.inputs[0].mask)
    return result


def _along_channels(call: LayerCall) -> bool:
    return call.layer.integer("axis", -1) % call.inputs[0].rank == call.inputs[0].rank - 1


def _masking(call: LayerCall) -> KerasValue:
    """Decode Masking: steps all of whose numbers are the given one do not count, and become 0."""
    builder, last = call.builder, call.builder.integers([-1])
    same = builder.add("Equal", call.x, builder.constant(np.float32(call.layer.real("mask_value", 0.0))))
    other = builder.cast(builder.add("Not", same), INT32)
    mask = builder.cast(builder.add("ReduceMax", other, last, keepdims=0), BOOL)
    counts = builder.add("Unsqueeze", mask, last)
    y = builder.add("Where", counts, call.x, builder.constant(np.float32(0)), name=call.name)
    return KerasValue(y, call.rank, mask=mask)


def _differs(call: LayerCall) -> KerasValue:
    """Decode NotEqual of a value and a number: with Any how Keras 3 writes the masks that it derives."""
    if len(call.numbers) != 1:
        raise UnsupportedError(f"a comparison with {len(call.numbers)} numbers is not supported")
    number = call.builder.constant(np.array(call.numbers[0], call.value.dtype))
    same = call.builder.add("Equal", call.value.name, number)
    return KerasValue(call.builder.add("Not", same, name=call.name), call.rank, BOOL)


def _any(call: LayerCall) -> KerasValue:
    if call.layer.config.get("axis") != -1 or call.layer.flag("keepdims", False) or call.value.dtype != BOOL:
        raise UnsupportedError("Any of other axes than the last, or of numbers, is not supported")
    axes, numbers = call.builder.integers([-1]), call.builder.cast(call.value.name, INT32)
    found = call.builder.add("ReduceMax", numbers, axes, keepdims=0)
    return KerasValue(call.builder.cast(found, BOOL, call.name), call.rank - 1, BOOL)


OPERATIONS = words("NotEqual Any")
MASKS: Mapping[str, Decode] = {
    "Masking": _masking,
    "NotEqual": _differs,
    "Any": _any,
}


def mean_of_steps(call: LayerCall, axes: str, keep: int) -> str:
    """Return the mean of the steps that count, as GlobalAveragePooling1D takes it; none gives NaN."""
    builder = call.builder
    counts = builder.cast(builder.add("Unsqueeze", call.value.mask, builder.integers([2])), call.value.dtype)
    total = builder.add("ReduceSum", builder.add("Mul", call.x, counts), axes, keepdims=keep)
    return builder.add("Div", total, builder.add("ReduceSum", counts, axes, keepdims=keep), name=call.name)


@dataclass(frozen=True)
class Front:
    """A sequence (batch, steps, features) with the steps that count in front: `x`, their number (batch,), and what puts
    results back. `mask`: of the steps in their order in time."""

    x: str
    lengths: str
    mask: str
    counted: str

    @staticmethod
    def of(builder: GraphBuilder, x: str, mask: str) -> Front:
        """Move the steps that count to the front."""
        counts = builder.cast(mask, INT32)
        one = builder.constant(np.int32(1))
        axis = builder.constant(np.int64(1))
        counted = builder.add("CumSum", counts, axis)
        ones = builder.add("Add", builder.add("Mul", counts, builder.constant(np.int32(0))), one)
        behind = builder.add("Mul", builder.add("Sub", one, counts), builder.constant(np.int32(_BEHIND)))
        key = builder.add("Add", builder.add("CumSum", ones, axis), behind)
        steps = builder.add("Shape", mask, start=1, end=2)
        _, order = builder.add_many("TopK", (key, steps), ("", ""), axis=1, largest=0, sorted=1)
        lengths = builder.add("ReduceSum", counts, builder.integers([1]), keepdims=0)
        return Front(_taken(builder, x, order), lengths, mask, counted)

    def put_back(self, builder: GraphBuilder, y: str, zeros: bool) -> str:
        """Return the result of every step, for the operator's results; `zeros`: those of steps that do not count."""
        zero, one = (builder.constant(np.int32(number)) for number in (0, 1))
        place = builder.add("Max", builder.add("Sub", self.counted, one), zero)
        found = _taken(builder, y, builder.cast(place, np.dtype(np.int64)))
        valid = self.mask if zeros else builder.add("Greater", self.counted, zero)
        wide = builder.add("Unsqueeze", valid, builder.integers([2]))
        return builder.add("Where", wide, found, builder.constant(np.float32(0)))


def _taken(builder: GraphBuilder, x: str, steps: str) -> str:
    """Return the steps (batch, steps) of a sequence (batch, steps, features)."""
    places = builder.add("Unsqueeze", steps, builder.integers([2]))
    return builder.add("GatherND", x, places, batch_dims=1)
