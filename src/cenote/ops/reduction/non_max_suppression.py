"""NonMaxSuppression: the best of overlapping boxes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.types import INT64, Array, TensorType
from cenote.ops.base import Arrays, Op, OpenShape, Sample, Types
from cenote.ops.checks import int64s, read, require_kind, require_same_dtype
from cenote.ops.values import seeded, wide


@dataclass(frozen=True)
class NonMaxSuppression(Op):
    """Per sample and class, greedily the boxes with the best scores that do not overlap a better one too
    much.

    Inputs: boxes (N, B, 4) as corners (y1, x1, y2, x2) in any order or, `centered`, as (x, y, width, height); scores
    (N, classes, B); at most how many boxes per class (0, the default, means none); the overlap (intersection over
    union) above which a box is dropped (0); the score that a box must exceed (no limit). Output: int64 (count, 3) of
    sample, class, box. Equal scores keep the order of the boxes. A box whose score equals the limit is dropped, as
    ONNX Runtime, TensorFlow and ONNX's reference do, although ONNX's text only drops lower ones. A box with a score
    that is no number is dropped.
    """

    centered: bool = False

    name = "non_max_suppression"
    operands = ("boxes", "scores", "most?", "overlap?", "limit?")
    from_onnx = {"NonMaxSuppression": lambda node: read(NonMaxSuppression, node, centered="center_point_box")}

    def types(self, boxes: TensorType, scores: TensorType, *limits: TensorType | None) -> Types:
        require_same_dtype(self.name, require_kind(self.name, boxes, "f", "boxes"), scores)
        fits = boxes.rank == 3 == scores.rank and boxes.shape[2] == 4
        if not fits or (boxes.shape[0], boxes.shape[1]) != (scores.shape[0], scores.shape[2]):
            raise ShapeError(
                f"{self.name}: boxes {boxes} must be (N, B, 4) and scores {scores} (N, classes, B)"
            )
        for limit, kinds, what in zip(limits, ("iu", "f", "f"), self.operands[2:], strict=True):
            if limit is not None and require_kind(self.name, limit, kinds, what.rstrip("?")).size > 1:
                raise ShapeError(f"{self.name}: '{what.rstrip('?')}' must hold one number, got {limit}")
        return self.shape_from_data(boxes, scores, *limits)

    def open_shapes(self, *inputs: TensorType | None) -> tuple[OpenShape, ...]:
        return ((None, 3),)

    def compute(self, boxes: Array, scores: Array, *limits: Array | None) -> Arrays:
        most, overlap, limit = (None if x is None or not x.size else x.item() for x in limits)
        if overlap is not None and not 0 <= overlap <= 1:
            raise ArgumentError(f"{self.name}: overlap {overlap} is not within 0 to 1")
        found = [
            (sample, kind, box)
            for sample in range(scores.shape[0])
            for kind in range(scores.shape[1])
            for box in _kept(
                _corners(wide(boxes[sample]), self.centered),
                wide(scores[sample, kind]),
                int(most or 0),
                float(overlap or 0),
                -np.inf if limit is None else float(limit),
            )
        ]
        return (np.array(found, INT64).reshape(-1, 3),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        boxes = np.array(
            [[0, 0, 1, 1], [1, 1.1, 0, 0.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10, 1, 11]], np.float32
        )
        scores = np.array([[0.9, 0.75, 0.6, 0.95, 0.95], [0.1, 0.5, 0.5, -1, 0]], np.float32)
        overlap, limit = np.array([0.5], np.float32), np.array([0.0], np.float32)
        two = np.stack([boxes, boxes + 0.25]), np.stack([scores, scores[::-1]])
        yield Sample(NonMaxSuppression(), (*two, int64s((3,)), overlap, limit))
        yield Sample(NonMaxSuppression(), (*two, np.array(2, np.int64), None, None), "no overlap")
        yield Sample(NonMaxSuppression(True), (*two, int64s((9,)), overlap), "centered")
        yield Sample(NonMaxSuppression(), two, "none wanted")
        yield Sample(
            NonMaxSuppression(), (seeded((1, 0, 4)), seeded((1, 2, 0)), int64s((5,)), overlap), "no boxes"
        )


def _corners(boxes: Array, centered: bool) -> Array:
    """Boxes as lower and upper corners."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if centered:
        return np.concatenate((first - second / 2, first + second / 2), axis=1)
    return np.concatenate((np.minimum(first, second), np.maximum(first, second)), axis=1)


def _kept(boxes: Array, scores: Array, most: int, overlap: float, limit: float) -> list[int]:
    """Indices of the kept boxes, best first."""
    kept: list[int] = []
    for box in np.argsort(-scores, kind="stable").tolist():
        if len(kept) >= most or not scores[box] > limit:  # NaN sorts last
            break
        if not (_overlap(boxes[box], boxes[kept]) > overlap).any():
            kept.append(box)
    return kept


def _overlap(box: Array, others: Array) -> Array:
    """Intersection over union with each of the others; 0 where the union is empty."""
    shared = np.maximum(np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2]), 0)
    intersection = shared[:, 0] * shared[:, 1]
    areas = np.prod(others[:, 2:] - others[:, :2], axis=1) + np.prod(box[2:] - box[:2])
    union = areas - intersection
    return np.asarray(np.where(union > 0, intersection / np.where(union > 0, union, 1), 0))
