"""Matrix products, named and defaulted as in PyTorch."""

from __future__ import annotations

from typing import Any

from cenote.core.errors import DTypeError, ShapeError
from cenote.core.types import is_float
from cenote.functional.arguments import Operation, Types
from cenote.functional.dispatch import call
from cenote.functional.record import public
from cenote.functional.scalars import factor, number
from cenote.functional.types import A
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul


def parse_matmul(types: Types, where: str) -> Operation:
    """Products of matrices in the last two axes."""
    rank = {"bmm": 3, "mm": 2}.get(where)
    if rank is not None and any(x.rank != rank for x in types):
        raise ShapeError(f"{where}: needs {rank}D arrays, got {types[0]} and {types[1]}")
    if where == "bmm" and types[0].shape[0] != types[1].shape[0]:
        raise ShapeError(f"bmm: batches differ: {types[0]} and {types[1]}; matmul broadcasts them")
    return _operation(MatMul(), types)


def parse_linear(types: Types, where: str) -> Operation:
    """x times the transpose of the weights."""
    x, weight = types[:2]
    if not is_float(x.dtype):
        raise DTypeError(f"linear: needs a float type, got {x.dtype}")
    if weight.rank not in (1, 2) or not x.rank or (len(types) > 2 and weight.rank == 1):
        raise ShapeError(
            f"linear: input {x} and weight {weight} must be (*, in_features) and (out_features, in_features)"
        )
    if x.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"linear: input {x} has {x.shape[-1]} features, weight {weight} takes {weight.shape[-1]}"
        )
    bias = types[2:]
    if bias and bias[0].shape != weight.shape[:1]:
        raise ShapeError(
            f"linear: bias {bias[0]} must have shape [{weight.shape[0]}], one number per row of the weight"
        )
    return _operation(MatMul(permute_b=(1, 0) if weight.rank == 2 else ()), types)


def parse_addmm(types: Types, where: str, beta: Any, alpha: Any) -> Operation:
    """beta * input + alpha * (mat1 @ mat2)."""
    if any(x.rank != 2 for x in types[:2]):
        raise ShapeError(f"addmm: mat1 {types[0]} and mat2 {types[1]} must be matrices")
    dtype = types[0].dtype
    return _operation(Gemm(factor(where, "alpha", alpha, dtype), factor(where, "beta", beta, dtype)), types)


def _operation(op: MatMul | Gemm, types: Types) -> Operation:
    return Operation(op, tuple(x.shape for x in types), tuple(y.shape for y in op.infer(*types)))


@public
def matmul(input: A, other: A, *, out: A | None = None, threads: int | None = None) -> A:
    """The product of two arrays, as torch.matmul and numpy.matmul.

    input, other  (..., M, K) and (..., K, N) of one type, float64, float32, float16, bfloat16 or an integer; the axes
                  before the last two broadcast; 1-D is a row (left) or a column (right)
    out           an array for the result
    threads       threads to use; None: as many as there are cores

    Transposed and permuted views (`x.T`, `swapaxes`, `permute`) are read where they lie; other views are copied first.
    float16 and bfloat16 are summed in float32 and rounded once; integers wrap around. An empty K gives zeros. Results
    are the same bits for any number of threads.

    Raises ShapeError where the shapes do not fit, DTypeError for other types and for two different ones.
    """
    return call(parse_matmul, (input, other), ("matmul",), out, threads)


@public
def mm(input: A, mat2: A, *, out: A | None = None, threads: int | None = None) -> A:
    """The product of two matrices (M, K) and (K, N), as torch.mm: see matmul. Raises ShapeError for other ranks."""
    return call(parse_matmul, (input, mat2), ("mm",), out, threads)


@public
def bmm(input: A, mat2: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Products of matrices pair by pair, (B, M, K) and (B, K, N), as torch.bmm: nothing broadcasts. See matmul."""
    return call(parse_matmul, (input, mat2), ("bmm",), out, threads)


@public
def linear(
    input: A, weight: A, bias: A | None = None, *, out: A | None = None, threads: int | None = None
) -> A:
    """input @ weight.T + bias, as torch.nn.functional.linear.

    input (*, in_features), weight (out_features, in_features) or (in_features,), bias (out_features,) or None; all of
    one float type. Types, `out`, `threads`: see matmul. Raises ShapeError and DTypeError where they do not fit.
    """
    arrays = (input, weight) if bias is None else (input, weight, bias)
    return call(parse_linear, arrays, ("linear",), out, threads)


@public
def addmm(
    input: A, mat1: A, mat2: A, *, beta: float = 1, alpha: float = 1, out: A | None = None, threads: int | None = None
) -> A:  # fmt: skip
    """beta * input + alpha * (mat1 @ mat2), as torch.addmm.

    mat1 (M, K), mat2 (K, N); input broadcasts to (M, N). With beta = 0 the input is not read: NaN in it does not
    spread. Types, `out`, `threads`: see matmul; for integers alpha and beta must be whole numbers.
    """
    arrays = (mat1, mat2) if number("addmm", "beta", beta) == 0 else (mat1, mat2, input)
    return call(parse_addmm, arrays, ("addmm", beta, alpha), out, threads)
