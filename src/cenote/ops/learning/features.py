"""Features of classical models: ArrayFeatureExtractor and Binarizer of ai.onnx.ml, and TfIdfVectorizer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from cenote.core.types import FLOAT32, INT64, Array, TensorType
from cenote.ops.base import Arrays, Imported, Op, Sample, Types
from cenote.ops.checks import checked_indices, one_of, read, require_kind, require_number
from cenote.ops.values import seeded


@dataclass(frozen=True)
class ArrayFeatureExtractor(Op):
    """Elements along the last axis by their numbers (any shape; negative ones count from the end): (..., n). Of a list
    the result has two axes, (1, n), as ONNX Runtime has it."""

    name = "array_feature_extractor"
    operands = ("x", "indices")
    from_onnx = {"ai.onnx.ml.ArrayFeatureExtractor": lambda node: read(ArrayFeatureExtractor, node)}

    def types(self, x: TensorType, indices: TensorType) -> Types:
        require_kind(self.name, indices, "i", "indices")
        if not x.rank:
            raise ShapeError(f"{self.name}: x must have at least one axis, got {x}")
        rows = x.shape[:-1] if x.rank > 1 else (1,)
        return (TensorType(x.dtype, (*rows, indices.size)),)

    def compute(self, x: Array, indices: Array) -> Arrays:
        (y,) = self.declared(x, indices)
        places = checked_indices(self.name, indices.reshape(-1), x.shape[-1])
        return (np.take(x, places, -1).reshape(y.shape),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls(), (seeded((3, 4)), np.array([[0, -1]], np.int64)))
        yield Sample(cls(), (seeded((5,), dtype=np.int64), np.array([4, 0, 2], np.int64)), "a list")
        yield Sample(cls(), (seeded((0, 3)), np.array([1], np.int64)))


@dataclass(frozen=True)
class Binarizer(Op):
    """1 where x is above the threshold, else 0, in x's type; 0 where x is NaN."""

    threshold: float = 0.0

    name = "binarizer"
    operands = ("x",)
    from_onnx = {"ai.onnx.ml.Binarizer": lambda node: read(Binarizer, node, "threshold")}

    def types(self, x: TensorType) -> Types:
        require_number(self.name, x.dtype)
        return (TensorType(x.dtype, x.shape),)

    def compute(self, x: Array) -> Arrays:
        return ((x > self.threshold).astype(x.dtype),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(cls(0.5), (np.array([0.5, 0.6, np.nan, -np.inf, np.inf], np.float32),))
        yield Sample(cls(), (seeded((2, 3), dtype=np.int64),))


@dataclass(frozen=True)
class TfIdfVectorizer(Op):
    """Counts of runs of numbers (n-grams) from a list in each row: float32 of shape (rows, 1 + largest of `columns`),
    or (1 + largest of `columns`,) for an input of one axis.

    `pool` holds the n-grams one after the other: from `starts[n - 1]` those of n numbers. `columns` says where the
    count of each goes. Counted are runs of `shortest` to `longest` numbers whose neighbours are 1, 2 ... up to
    1 + `most_skipped` places apart; single numbers count once. `mode` "TF" gives counts, "IDF" the weight of each
    that occurs, "TFIDF" counts times weights (ones if there are none). Words are not supported.
    """

    mode: str
    shortest: int
    longest: int
    most_skipped: int
    starts: tuple[int, ...]
    columns: tuple[int, ...]
    pool: tuple[int, ...]
    weights: tuple[float, ...] = ()

    name = "tf_idf_vectorizer"
    operands = ("x",)
    from_onnx = {"TfIdfVectorizer": lambda node: _decode_tf_idf(node)}

    def types(self, x: TensorType) -> Types:
        one_of(self.name, "mode", self.mode, ("TF", "IDF", "TFIDF"))
        if x.dtype.name not in ("int32", "int64"):
            raise DTypeError(f"{self.name}: x has type {x.dtype}, expected int32 or int64")
        if x.rank not in (1, 2):
            raise ShapeError(f"{self.name}: x must have shape (numbers) or (rows, numbers), got {x}")
        grams = dict(self.grams())
        if not 0 < self.shortest <= self.longest <= len(self.starts) or self.most_skipped < 0:
            lengths = f"{self.shortest} to {self.longest}, {self.most_skipped} skipped"
            raise ArgumentError(f"{self.name}: lengths {lengths} do not fit {len(self.starts)} ngram_counts")
        if not self.columns or min(self.columns) < 0 or len(grams) > len(self.columns):
            raise ArgumentError(
                f"{self.name}: {len(self.columns)} ngram_indexes do not fit {len(grams)} n-grams"
            )
        if self.weights and len(self.weights) <= max(self.columns):
            raise ArgumentError(f"{self.name}: {len(self.weights)} weights for column {max(self.columns)}")
        return (TensorType(FLOAT32, (*x.shape[:-1], 1 + max(self.columns))),)

    def grams(self) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yield each n-gram of the pool and its number."""
        number, ends = 0, (*self.starts[1:], len(self.pool))
        for size, (start, end) in enumerate(zip(self.starts, ends, strict=True), 1):
            if not 0 <= start <= end <= len(self.pool) or (end - start) % size:
                raise ArgumentError(
                    f"{self.name}: ngram_counts {self.starts} do not cut {len(self.pool)} numbers"
                )
            for place in range(start, end, size):
                yield self.pool[place : place + size], number
                number += 1

    def compute(self, x: Array) -> Arrays:
        (y,) = self.declared(x)
        found = np.zeros((math.prod(y.shape[:-1]), y.shape[-1]))
        numbers = dict(self.grams())
        for counts, row in zip(found, x.reshape(len(found), x.shape[-1]).tolist(), strict=True):
            for run, count in Counter(self._runs(row)).items():
                if run in numbers:
                    counts[self.columns[numbers[run]]] += count
        weights = np.array(self.weights or [1.0] * y.shape[-1], np.float64)[: y.shape[-1]]
        if self.mode != "TF":
            found = (np.minimum(found, 1) if self.mode == "IDF" else found) * weights
        return (found.reshape(y.shape).astype(np.float32),)

    def _runs(self, row: list[int]) -> Iterator[tuple[int, ...]]:
        """Yield every run that is counted, once per occurrence."""
        for size in range(self.shortest, min(self.longest, len(row)) + 1):
            furthest = (len(row) - 1) // (size - 1) if size > 1 else 1
            for step in range(1, 1 + min(1 + self.most_skipped, furthest)):
                for start in range(len(row) - (size - 1) * step):
                    yield tuple(row[start : start + (size - 1) * step + 1 : step])

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        pool, starts, columns = (2, 3, 5, 4, 5, 6, 7, 8, 6, 7), (0, 4), (0, 1, 2, 3, 4, 5, 6)
        x = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int32)
        weights = (1.0, 2.0, 0.5, 3.0, 1.0, 1.0, 4.0)
        yield Sample(cls("TF", 1, 2, 5, starts, columns, pool), (x,))
        yield Sample(cls("TFIDF", 2, 2, 0, starts, columns, pool, weights), (x.astype(INT64),))
        yield Sample(cls("IDF", 1, 1, 3, starts, columns, pool, weights), (x[0],), "a list")
        yield Sample(cls("TF", 2, 2, 0, starts, columns, pool), (x[:, :0],), "nothing")


def _decode_tf_idf(node: Imported) -> Op:
    if node.get("pool_strings") is not None:
        raise UnsupportedError(f"{node.op}-{node.opset}: n-grams of words (pool_strings) are not supported")
    return read(
        TfIdfVectorizer, node, "mode", "weights", shortest="min_gram_length", longest="max_gram_length",
        most_skipped="max_skip_count", starts="ngram_counts", columns="ngram_indexes", pool="pool_int64s",
    )  # fmt: skip
