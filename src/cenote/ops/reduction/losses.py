"""NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.types import Array, TensorType
from cenote.ops.base import Arrays, Imported, Op, Sample, Types
from cenote.ops.checks import one_of, read, require_index, require_kind, require_same_dtype
from cenote.ops.values import narrow, seeded, wide

REDUCTIONS = ("none", "sum", "mean")


def _decode_softmax_cross_entropy(node: Imported) -> Op:
    op = read(SoftmaxCrossEntropyLoss, node, "reduction", "ignore_index")
    return replace(op, with_log_probability=node.outputs > 1)


@dataclass(frozen=True)
class NegativeLogLikelihoodLoss(Op):
    """Minus the log-probability (N, C, ...) of each target class (N, ...), times its class's weight (C,).

    `reduction`: "none" (N, ...), "sum", or "mean", which divides by the sum of the weights used. Targets
    equal to `ignore_index` count nothing, in the mean's divisor too (as PyTorch does).
    """

    reduction: str = "mean"
    ignore_index: int | None = None

    name = "negative_log_likelihood_loss"
    operands = ("x", "target", "weight?")
    from_onnx = {
        "NegativeLogLikelihoodLoss": lambda node: read(
            NegativeLogLikelihoodLoss, node, "reduction", "ignore_index"
        )
    }

    def types(self, x: TensorType, target: TensorType, weight: TensorType | None) -> Types:
        one_of(self.name, "reduction", self.reduction, REDUCTIONS)
        dtype = require_same_dtype(self.name, require_kind(self.name, x, "f", "x"), weight)
        if x.rank < 2 or require_index(self.name, target, "target").shape != (x.shape[0], *x.shape[2:]):
            raise ShapeError(
                f"{self.name}: {x} must be (N, C, ...) and the target {target} the same without C"
            )
        if weight is not None and weight.shape != x.shape[1:2]:
            raise ShapeError(f"{self.name}: weight {weight} must hold one number per class of {x}")
        return (TensorType(dtype, target.shape if self.reduction == "none" else ()),)

    def compute(self, x: Array, target: Array, weight: Array | None) -> Arrays:
        used = np.ones(target.shape, bool) if self.ignore_index is None else target != self.ignore_index
        classes = np.where(used, target, 0)
        if classes.size and not 0 <= classes.min() <= classes.max() < x.shape[1]:
            raise ArgumentError(f"{self.name}: a target is not within 0 to {x.shape[1] - 1}")
        weights = used.astype(np.float64) if weight is None else np.where(used, wide(weight)[classes], 0)
        if x.shape[1]:
            picked = np.take_along_axis(wide(x), np.expand_dims(classes, 1), 1).squeeze(1)
        else:
            picked = np.zeros(target.shape)
        loss = np.where(used, -picked * weights, 0)
        if self.reduction == "mean":
            loss = loss.sum() / weights.sum()
        elif self.reduction == "sum":
            loss = loss.sum()
        return (narrow(loss, x.dtype),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        target = np.array([[0, 4], [2, 2], [-1, 3]], np.int64)
        weight = np.abs(seeded((5,), 3))
        for reduction in REDUCTIONS:
            yield Sample(cls(reduction), (seeded((3, 5), 1), target[:, 1], None))
            yield Sample(cls(reduction), (seeded((3, 5), 1), target[:, 1].astype(np.int32), weight))
            yield Sample(cls(reduction, -1), (seeded((3, 5, 2), 1), target, weight), "ignored")
        yield Sample(cls("none"), (seeded((0, 5, 2), 1), target[:0], weight))


@dataclass(frozen=True)
class SoftmaxCrossEntropyLoss(Op):
    """NegativeLogLikelihoodLoss of the log-softmax of the scores over axis 1, which is the second output if wanted."""

    reduction: str = "mean"
    ignore_index: int | None = None
    with_log_probability: bool = False

    name = "softmax_cross_entropy_loss"
    operands = ("scores", "labels", "weights?")
    from_onnx = {"SoftmaxCrossEntropyLoss": _decode_softmax_cross_entropy}

    @property
    def likelihood(self) -> NegativeLogLikelihoodLoss:
        """The loss after the softmax."""
        return NegativeLogLikelihoodLoss(self.reduction, self.ignore_index)

    def types(self, scores: TensorType, labels: TensorType, weights: TensorType | None) -> Types:
        (loss,) = self.likelihood.types(scores, labels, weights)
        return (loss, TensorType(scores.dtype, scores.shape))[: 1 + self.with_log_probability]

    def compute(self, scores: Array, labels: Array, weights: Array | None) -> Arrays:
        values = wide(scores)
        shifted = values - values.max(axis=1, keepdims=True, initial=-np.inf)
        logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        (loss,) = self.likelihood.compute(logs, labels, weights)
        return (narrow(loss, scores.dtype), narrow(logs, scores.dtype))[: 1 + self.with_log_probability]

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        labels = np.array([[0, 4], [2, 2], [7, 3]], np.int64)
        weights = np.abs(seeded((5,), 3))
        for reduction in REDUCTIONS:
            yield Sample(cls(reduction, with_log_probability=True), (seeded((3, 5), 1), labels[:, 1], None))
            yield Sample(cls(reduction, 7), (seeded((3, 5, 2), 1) * 200, labels, weights), "large scores")
        yield Sample(cls("sum"), (seeded((0, 5), 1), labels[:0, 0], None))
