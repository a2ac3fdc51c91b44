"""NonMaxSuppression: the best of overlapping boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.target import Target
from cenote.core.types import FLOAT64, INT64, PLAIN, Array, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.launch import Runner
from cenote.kernels.selection.order import order_call
from cenote.kernels.selection.suppress import PARTS, SPARE, suppress_call
from cenote.ops.base import Arrays, Lowering, Op, OpenShape, Sample, Types
from cenote.ops.checks import int64s, read, require_kind, require_same_dtype
from cenote.ops.reduction.topk import best_of
from cenote.ops.runner import lowering_runner
from cenote.ops.values import seeded, wide

Keep = Callable[[Array, Array, int, float, float], list[int]]


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
        return self._found(_kept, boxes, scores, *limits)

    def run_on_host(self, threads: int, *inputs: Array | None) -> Arrays:
        with np.errstate(all="ignore"):
            return self._found(_kept_by_kernel, *self.arranged(inputs))

    def _found(self, keep: Keep, boxes: Array, scores: Array, *limits: Array | None) -> Arrays:
        """The result by a function that gives the boxes that one class keeps."""
        most, overlap, limit = (None if x is None or not x.size else x.item() for x in limits)
        if overlap is not None and not 0 <= overlap <= 1:
            raise ArgumentError(f"{self.name}: overlap {overlap} is not within 0 to 1")
        least = -np.inf if limit is None else float(limit)
        found = []
        for sample in range(scores.shape[0]):
            corners = _corners(wide(boxes[sample]), self.centered)
            for kind in range(scores.shape[1]):
                kept = keep(corners, wide(scores[sample, kind]), int(most or 0), float(overlap or 0), least)
                found += [(sample, kind, box) for box in kept]
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


@dataclass(frozen=True)
class Nms(Op):
    """NonMaxSuppression of one class by cenote.functional's rules: boxes (n, 4) as (x1, y1, x2, y2), scores (n).

    Outputs: the kept boxes from the best score on, -1 behind them (int64, n), and how many there are (int64, 1). The
    overlap is taken in the boxes' type; boxes of no area overlap nothing (0 / 0 is not above any threshold). Equal
    scores keep the order of the boxes; NaN is the best score.
    """

    threshold: float = 0.5

    name = "nms"
    operands = ("boxes", "scores")

    def types(self, boxes: TensorType, scores: TensorType) -> Types:
        require_same_dtype(self.name, require_kind(self.name, boxes, "f", "boxes"), scores)
        if boxes.rank != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
            raise ShapeError(f"{self.name}: boxes {boxes} must be (n, 4) and scores {scores} (n)")
        return TensorType(INT64, scores.shape), TensorType(INT64, (1,))

    def compute(self, boxes: Array, scores: Array) -> Arrays:
        _, order = best_of(scores, scores.size, 0, True)
        kept: list[int] = []
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        for box in order.tolist():
            others = boxes[kept]
            sides = np.minimum(boxes[box, 2:], others[:, 2:]) - np.maximum(boxes[box, :2], others[:, :2])
            shared = np.prod(np.maximum(sides, 0), axis=1, dtype=boxes.dtype)
            over = shared / (areas[box] + areas[kept] - shared)
            if not (over.astype(np.float64) > self.threshold).any():
                kept.append(box)
        y = np.full(scores.shape, -1, np.int64)
        y[: len(kept)] = kept
        return y, np.array([len(kept)], np.int64)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        boxes, scores = (present(kind) for kind in inputs)
        count = scores.size
        if boxes.dtype.itemsize < 4 or not count:
            return

        def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            corners, given = (present(view) for view in views)
            y, number, ordered, places, kept = outputs
            return [
                order_call(given, ordered, places, 1, count, 1, count, True),
                suppress_call(corners, places, y, number, kept, count, self.threshold),
            ]

        temporaries = (
            TensorType(scores.dtype, (count,)),
            TensorType(INT64, (count,)),
            TensorType(boxes.dtype, (PARTS, count + SPARE)),
        )
        seconds = pass_seconds(boxes.nbytes) + count * 1e-7
        yield Lowering("greedy", (PLAIN, PLAIN), (PLAIN, PLAIN), bind, seconds, temporaries=temporaries)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for count, dtype in ((1, np.float32), (40, np.float32), (300, np.float32), (40, np.float64)):
            corners = np.abs(seeded((count, 2), dtype=dtype)) * 3
            boxes = np.concatenate((corners, corners + np.abs(seeded((count, 2), 1, dtype)) + 1), axis=1)
            for threshold in (0.0, 0.3, 0.7):
                yield Sample(cls(threshold), (boxes.astype(dtype), np.round(seeded((count,), 2, dtype), 1)))
        points = np.zeros((3, 4), np.float32), np.array([1.0, np.nan, 1.0], np.float32)
        yield Sample(cls(), points, "no area")
        yield Sample(cls(), (np.zeros((0, 4), np.float32), np.zeros(0, np.float32)), "no boxes")


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


def _kept_by_kernel(boxes: Array, scores: Array, most: int, overlap: float, limit: float) -> list[int]:
    """Indices of the kept boxes by the kernel, which computes in float64 too: the same bits."""
    above = np.flatnonzero(scores > limit)
    if not above.size or most <= 0:
        return []
    above = above[np.argsort(-scores[above], kind="stable")]
    size = max(64, 1 << (above.size - 1).bit_length())  # few runners for any number of boxes
    ordered = np.zeros((size, 4))
    ordered[: above.size] = boxes[above]
    places, count = _suppressing(size, min(most, size), overlap)([ordered], None)
    kept = places[: int(count[0])]
    boxes_kept: list[int] = above[kept[kept < above.size]].tolist()
    return boxes_kept


@lru_cache(256)
def _suppressing(size: int, most: int, overlap: float) -> Runner:
    """Runner that takes boxes, the best first, and returns the numbers of those kept and their count."""
    boxes, numbers = TensorType(FLOAT64, (size, 4)), TensorType(INT64, (size,))
    kept = TensorType(FLOAT64, (PARTS, size + SPARE))
    call = partial(suppress_call, most=most, threshold=overlap)
    lowering = Lowering.of_call("greedy", (PLAIN, PLAIN), (PLAIN, PLAIN), call, 0.0, 0.0, (kept,))
    run = lowering_runner(lowering, (boxes, numbers), (numbers, TensorType(INT64, (1,))), 1)
    order = np.arange(size)
    return lambda arrays, out: run([*arrays, order], out)


def _overlap(box: Array, others: Array) -> Array:
    """Intersection over union with each of the others; 0 where the union is empty."""
    shared = np.maximum(np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2]), 0)
    intersection = shared[:, 0] * shared[:, 1]
    areas = np.prod(others[:, 2:] - others[:, :2], axis=1) + np.prod(box[2:] - box[:2])
    union = areas - intersection
    return np.asarray(np.where(union > 0, intersection / np.where(union > 0, union, 1), 0))
