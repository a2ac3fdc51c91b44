"""Matrix products, named and defaulted as in PyTorch."""

from __future__ import annotations

from typing import Annotated

from cenote.core.errors import DTypeError, ShapeError
from cenote.core.types import is_float
from cenote.functional.kinds import Array, Kind
from cenote.functional.record import function
from cenote.functional.scalars import factor, number
from cenote.ops.base import Op
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul

Factor = Annotated[float, Kind("float")]


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
        raise ShapeError(f"needs 2D arrays, got {input} and {mat2}")
    return MatMul()


@function()
def bmm(input: Array, mat2: Array) -> Op:
    """Products of matrices pair by pair, (B, M, K) and (B, K, N), as torch.bmm: nothing broadcasts. See matmul."""
    if input.rank != 3 or mat2.rank != 3:
        raise ShapeError(f"needs 3D arrays, got {input} and {mat2}")
    if input.shape[0] != mat2.shape[0]:
        raise ShapeError(f"batches differ: {input} and {mat2}; matmul broadcasts them")
    return MatMul()


@function()
def linear(input: Array, weight: Array, bias: Array | None = None) -> Op:
    """input @ weight.T + bias, as torch.nn.functional.linear.

    input (*, in_features), weight (out_features, in_features) or (in_features,), bias (out_features,) or None; all of
    one float type. Types, `out`, `threads`: see matmul. Raises ShapeError and DTypeError where they do not fit.
    """
    if not is_float(input.dtype):
        raise DTypeError(f"needs a float type, got {input.dtype}")
    if weight.rank not in (1, 2) or not input.rank or (bias is not None and weight.rank == 1):
        raise ShapeError(
            f"input {input} and weight {weight} must be (*, in_features) and (out_features, in_features)"
        )
    if input.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"input {input} has {input.shape[-1]} features, weight {weight} takes {weight.shape[-1]}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ShapeError(f"bias {bias} must have shape [{weight.shape[0]}], one number per row of the weight")
    return MatMul(permute_b=(1, 0) if weight.rank == 2 else ())


def _addends(input: object, mat1: object, mat2: object, beta: object) -> tuple[object, ...]:
    """The matrices, and the input where it counts."""
    return (mat1, mat2) if number("beta", beta) == 0 else (mat1, mat2, input)


@function(arrays=_addends, order=("mat1", "mat2"))
def addmm(input: Array, mat1: Array, mat2: Array, *, beta: Factor = 1, alpha: Factor = 1) -> Gemm:
    """beta * input + alpha * (mat1 @ mat2), as torch.addmm.

    mat1 (M, K), mat2 (K, N); input broadcasts to (M, N). With beta = 0 the input is not read: NaN in it does not
    spread. Types, `out`, `threads`: see matmul; for integers alpha and beta must be whole numbers.
    """
    if mat1.rank != 2 or mat2.rank != 2:
        raise ShapeError(f"mat1 {mat1} and mat2 {mat2} must be matrices")
    dtype = mat1.dtype
    return Gemm(factor("alpha", alpha, dtype), factor("beta", beta, dtype))
