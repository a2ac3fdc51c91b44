"""Largest and smallest values of windows, and flat grey-scale morphology."""

from __future__ import annotations

from typing import Any, Literal, overload

from cenote.functional.arguments import (
    TORCH,
    Operation,
    Types,
    WindowArguments,
    flag,
    form,
    layout_rank,
    numbers,
    operation_on,
    refuse_empty,
    rules_of,
    window_fields,
)
from cenote.functional.dispatch import call
from cenote.functional.types import A, Layout, Layout1, Layout2, Layout3, NanRule, Numbers, Padding, Rules
from cenote.ops.pool.window import MaxPool, MinPool


def parse_max(
    types: Types, where: str, rank: int, largest: bool, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: Any, return_indices: Any, layout: Any, semantics: Any, nan: Any,
) -> Operation:  # fmt: skip
    """The largest or smallest values of windows."""
    rules, nan_rule = rules_of(where, semantics, nan)
    arguments = WindowArguments(kernel_size, stride, padding, dilation, ceil_mode)
    shape, fields = window_fields(where, rank, arguments, layout, rules, types[0])
    indices = flag(where, "return_indices", return_indices)
    kind = MaxPool if largest else MinPool
    op = kind(**fields, return_indices=indices, index=rules.index, nan=nan_rule)
    return operation_on(op, types[0], shape)


@overload
def max_pool1d(
    input: A, kernel_size: Numbers, stride: Numbers | None = ..., padding: Padding = ...,
    dilation: Numbers = ..., ceil_mode: bool = ..., return_indices: Literal[False] = ..., *,
    out: A | None = ..., layout: Layout1 = ..., threads: int | None = ..., semantics: Rules = ...,
    nan: NanRule | None = ...,
) -> A: ...  # fmt: skip
@overload
def max_pool1d(
    input: A, kernel_size: Numbers, stride: Numbers | None = ..., padding: Padding = ...,
    dilation: Numbers = ..., ceil_mode: bool = ..., return_indices: bool = ..., *,
    out: A | tuple[A, A] | None = ..., layout: Layout1 = ..., threads: int | None = ...,
    semantics: Rules = ..., nan: NanRule | None = ...,
) -> Any: ...  # fmt: skip
def max_pool1d(
    input: A,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    out: A | tuple[A, A] | None = None,
    layout: Layout1 = "NCL",
    threads: int | None = None,
    semantics: Rules = "torch",
    nan: NanRule | None = None,
) -> Any:
    """Largest value of each window over 1 spatial axis: see max_pool2d. Layouts: NCL, NLC, L."""
    rest = (kernel_size, stride, padding, dilation, ceil_mode, return_indices, layout, semantics, nan)
    return call(parse_max, (input,), ("max_pool1d", 1, True, *rest), out, threads)


@overload
def max_pool2d(
    input: A, kernel_size: Numbers, stride: Numbers | None = ..., padding: Padding = ...,
    dilation: Numbers = ..., ceil_mode: bool = ..., return_indices: Literal[False] = ..., *,
    out: A | None = ..., layout: Layout2 = ..., threads: int | None = ..., semantics: Rules = ...,
    nan: NanRule | None = ...,
) -> A: ...  # fmt: skip
@overload
def max_pool2d(
    input: A, kernel_size: Numbers, stride: Numbers | None = ..., padding: Padding = ...,
    dilation: Numbers = ..., ceil_mode: bool = ..., return_indices: bool = ..., *,
    out: A | tuple[A, A] | None = ..., layout: Layout2 = ..., threads: int | None = ...,
    semantics: Rules = ..., nan: NanRule | None = ...,
) -> Any: ...  # fmt: skip
def max_pool2d(
    input: A,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    out: A | tuple[A, A] | None = None,
    layout: Layout2 = "NCHW",
    threads: int | None = None,
    semantics: Rules = "torch",
    nan: NanRule | None = None,
) -> Any:
    """Largest value of each window of (N, C, H, W), (C, H, W) or (H, W), as torch.nn.functional.max_pool2d.

    input           array of float64, float32, float16, bfloat16, int8, uint8, int16, int32, int64 or bool
    kernel_size     number or pair: taps per axis
    stride          number or pair; by default kernel_size
    padding         number, pair, pairs ((top, bottom), (left, right)), "same" (the odd row at the end), "same_lower"
                    (at the begin) or "valid"; at most half of the effective kernel size. Padding is never a maximum
    dilation        distance of the taps
    ceil_mode       round the output size up; windows that would start past the input are dropped
    return_indices  return (values, indices): int64 positions in the H x W plane, unpadded. Ties: the first
    out             array for the result (a pair with return_indices): exact shape and type, no overlap with the input
    layout          "NCHW", "NHWC", or "HW" for a plain map; batch (and for rank 2 channels) may be missing
    threads         how many; by default one per physical core
    semantics       "torch", "onnx", "tensorflow", "tensorrt", "caffe": defaults and rules (docs/pooling_semantics.md)
    nan             "propagate": a window with a NaN gives NaN and the index of the last one; "ignore": NaN is skipped
                    (-inf where there is nothing else). By default what the semantics say; PyTorch's propagate

    Returns an array of the input's kind. Raises ArgumentError, ShapeError, DTypeError or InputError, all naming the
    argument. A window that holds padding only, which PyTorch gives -inf, is refused.
    """
    rest = (kernel_size, stride, padding, dilation, ceil_mode, return_indices, layout, semantics, nan)
    return call(parse_max, (input,), ("max_pool2d", 2, True, *rest), out, threads)


@overload
def max_pool3d(
    input: A, kernel_size: Numbers, stride: Numbers | None = ..., padding: Padding = ...,
    dilation: Numbers = ..., ceil_mode: bool = ..., return_indices: Literal[False] = ..., *,
    out: A | None = ..., layout: Layout3 = ..., threads: int | None = ..., semantics: Rules = ...,
    nan: NanRule | None = ...,
) -> A: ...  # fmt: skip
@overload
def max_pool3d(
    input: A, kernel_size: Numbers, stride: Numbers | None = ..., padding: Padding = ...,
    dilation: Numbers = ..., ceil_mode: bool = ..., return_indices: bool = ..., *,
    out: A | tuple[A, A] | None = ..., layout: Layout3 = ..., threads: int | None = ...,
    semantics: Rules = ..., nan: NanRule | None = ...,
) -> Any: ...  # fmt: skip
def max_pool3d(
    input: A,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    out: A | tuple[A, A] | None = None,
    layout: Layout3 = "NCDHW",
    threads: int | None = None,
    semantics: Rules = "torch",
    nan: NanRule | None = None,
) -> Any:
    """Largest value of each window over 3 spatial axes: see max_pool2d. Layouts: NCDHW, NDHWC, DHW."""
    rest = (kernel_size, stride, padding, dilation, ceil_mode, return_indices, layout, semantics, nan)
    return call(parse_max, (input,), ("max_pool3d", 3, True, *rest), out, threads)


@overload
def min_pool(
    input: A, kernel_size: Numbers, stride: Numbers | None = ..., padding: Padding = ...,
    dilation: Numbers = ..., ceil_mode: bool = ..., return_indices: Literal[False] = ..., *,
    out: A | None = ..., layout: Layout = ..., threads: int | None = ..., semantics: Rules = ...,
    nan: NanRule | None = ...,
) -> A: ...  # fmt: skip
@overload
def min_pool(
    input: A, kernel_size: Numbers, stride: Numbers | None = ..., padding: Padding = ...,
    dilation: Numbers = ..., ceil_mode: bool = ..., return_indices: bool = ..., *,
    out: A | tuple[A, A] | None = ..., layout: Layout = ..., threads: int | None = ...,
    semantics: Rules = ..., nan: NanRule | None = ...,
) -> Any: ...  # fmt: skip
def min_pool(
    input: A,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    out: A | tuple[A, A] | None = None,
    layout: Layout = "NCHW",
    threads: int | None = None,
    semantics: Rules = "torch",
    nan: NanRule | None = None,
) -> Any:
    """Smallest value of each window: max_pool2d with the order reversed. `layout` also sets the number of spatial axes
    ("NCL" 1, "NCHW" 2, "NCDHW" 3, and their channels-last and plain forms).
    """
    rank = layout_rank("min_pool", layout)
    rest = (kernel_size, stride, padding, dilation, ceil_mode, return_indices, layout, semantics, nan)
    return call(parse_max, (input,), ("min_pool", rank, False, *rest), out, threads)


def parse_morphology(
    types: Types, where: str, rank: int, largest: bool, size: Any, layout: Any, nan: Any
) -> Operation:
    """Dilation (the largest value) or erosion."""
    _, nan_rule = rules_of(where, TORCH.name, nan)
    window = numbers(where, "size", size, rank, 1)
    shape = form(where, types[0].shape, rank, layout)
    refuse_empty(where, shape)
    kind = MaxPool if largest else MinPool
    # The odd tap of an even window lies before the origin for dilation and behind it for erosion (a window and its
    # reflection), as opening and closing need it.
    op = kind(
        window,
        auto_pad="SAME_UPPER" if largest else "SAME_LOWER",
        channels_last=shape.channels_last,
        nan=nan_rule,
    )
    return operation_on(op, types[0], shape)


def dilation(
    input: A,
    size: Numbers,
    *,
    out: A | None = None,
    layout: Layout = "NCHW",
    threads: int | None = None,
    nan: NanRule | None = None,
) -> A:
    """Grey-scale dilation by a flat window of `size` (a number, or one per axis): the largest value around each
    element; the shape stays. Elements outside of the map take no part, which for odd sizes gives the result of
    scipy.ndimage.grey_dilation with its default border. The spatial axes follow from `layout`.

    For even sizes the window of dilation is that of erosion reflected, so that dilation(erosion(x)) never exceeds x.
    """
    rank = layout_rank("dilation", layout)
    return call(parse_morphology, (input,), ("dilation", rank, True, size, layout, nan), out, threads)


def erosion(
    input: A,
    size: Numbers,
    *,
    out: A | None = None,
    layout: Layout = "NCHW",
    threads: int | None = None,
    nan: NanRule | None = None,
) -> A:
    """Grey-scale erosion by a flat window of `size`: the smallest value around each element; see dilation."""
    rank = layout_rank("erosion", layout)
    return call(parse_morphology, (input,), ("erosion", rank, False, size, layout, nan), out, threads)
