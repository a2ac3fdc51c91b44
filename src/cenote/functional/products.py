"""Matrix products, named and defaulted as in PyTorch."""

from __future__ import annotations

from cenote.core.errors import DTypeError, ShapeError
from cenote.core.types import is_float
from cenote.functional.arguments import Operation, Types, plain
from cenote.functional.dispatch import call
from cenote.functional.kinds import Array
from cenote.functional.record import function, public
from cenote.functional.scalars import factor, number
from cenote.functional.types import A
from cenote.ops.base import Op
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul


@function()
def matmul(input: Array, other: Array) -> Op:
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
    return MatMul()


@function()
def mm(input: Array, mat2: Array) -> Op:
    """The product of two matrices (M, K) and (K, N), as torch.mm: see matmul. Raises ShapeError for other ranks."""
    if input.rank != 2 or mat2.rank != 2:
        raise ShapeError(f"mm: needs 2D arrays, got {input} and {mat2}")
    return MatMul()


@function()
def bmm(input: Array, mat2: Array) -> Op:
    """Products of matrices pair by pair, (B, M, K) and (B, K, N), as torch.bmm: nothing broadcasts. See matmul."""
    if input.rank != 3 or mat2.rank != 3:
        raise ShapeError(f"bmm: needs 3D arrays, got {input} and {mat2}")
    if input.shape[0] != mat2.shape[0]:
        raise ShapeError(f"bmm: batches differ: {input} and {mat2}; matmul broadcasts them")
    return MatMul()


@function()
def linear(input: Array, weight: Array, bias: Array | None = None) -> Op:
    """input @ weight.T + bias, as torch.nn.functional.linear.

    input (*, in_features), weight (out_features, in_features) or (in_features,), bias (out_features,) or None; all of
    one float type. Types, `out`, `threads`: see matmul. Raises ShapeError and DTypeError where they do not fit.
    """
    if not is_float(input.dtype):
        raise DTypeError(f"linear: needs a float type, got {input.dtype}")
    if weight.rank not in (1, 2) or not input.rank or (bias is not None and weight.rank == 1):
        raise ShapeError(
            f"linear: input {input} and weight {weight} must be (*, in_features) and (out_features, in_features)"
        )
    if input.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"linear: input {input} has {input.shape[-1]} features, weight {weight} takes {weight.shape[-1]}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ShapeError(
            f"linear: bias {bias} must have shape [{weight.shape[0]}], one number per row of the weight"
        )
    return MatMul(permute_b=(1, 0) if weight.rank == 2 else ())


@public
def addmm(
    input: A, mat1: A, mat2: A, *, beta: float = 1, alpha: float = 1, out: A | None = None, threads: int | None = None
) -> A:  # fmt: skip
    """beta * input + alpha * (mat1 @ mat2), as torch.addmm.

    mat1 (M, K), mat2 (K, N); input broadcasts to (M, N). With beta = 0 the input is not read: NaN in it does not
    spread. Types, `out`, `threads`: see matmul; for integers alpha and beta must be whole numbers.
    """
    arrays = (mat1, mat2) if number("addmm", "beta", beta) == 0 else (mat1, mat2, input)
    return call(_parse_addmm, arrays, ("addmm", beta, alpha), out, threads)


def _parse_addmm(types: Types, where: str, beta: object, alpha: object) -> Operation:
    """beta * input + alpha * (mat1 @ mat2)."""
    if any(x.rank != 2 for x in types[:2]):
        raise ShapeError(f"addmm: mat1 {types[0]} and mat2 {types[1]} must be matrices")
    dtype = types[0].dtype
    op = Gemm(factor(where, "alpha", alpha, dtype), factor(where, "beta", beta, dtype))
    return plain(op, *types)
