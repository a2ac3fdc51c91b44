"""Largest and smallest values of windows, and flat grey-scale morphology."""

from __future__ import annotations

from cenote.functional.arguments import TORCH, Form, WindowArguments, numbers
from cenote.functional.kinds import Map, RulesOfExtremes
from cenote.functional.record import function
from cenote.functional.types import NanRule, Numbers
from cenote.ops.pool.gradient import PoolGradient
from cenote.ops.pool.window import MaxPool, MinPool


def _extremes(
    kind: type[MaxPool], input: Form, window: WindowArguments, indices: bool, rules: RulesOfExtremes
) -> MaxPool:
    fields = input.windows(window, rules.semantics)
    return kind(**fields, return_indices=indices, index=rules.semantics.index, nan=rules.of_nan)


@function(
    ranks=(1, 2, 3),
    twins="Largest value of each window over {axes}: see max_pool2d. Layouts: {layouts}.",
    gradient=PoolGradient,
    indexed=True,
)
def max_pool(
    input: Map, window: WindowArguments, return_indices: bool = False, *, rules: RulesOfExtremes
) -> MaxPool:
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
    return _extremes(MaxPool, input, window, return_indices, rules)


@function(gradient=PoolGradient, indexed=True)
def min_pool(
    input: Map, window: WindowArguments, return_indices: bool = False, *, rules: RulesOfExtremes
) -> MaxPool:
    """Smallest value of each window: max_pool2d with the order reversed. `layout` also sets the number of spatial axes
    ("NCL" 1, "NCHW" 2, "NCDHW" 3, and their channels-last and plain forms).
    """
    return _extremes(MinPool, input, window, return_indices, rules)


def _flat(kind: type[MaxPool], input: Form, size: Numbers, edge: str, nan: str | None) -> MaxPool:
    window = numbers("size", size, input.rank, 1)
    input.refuse_empty()
    return kind(window, auto_pad=edge, channels_last=input.channels_last, nan=nan or TORCH.nan)


# The odd tap of an even window lies before the origin for dilation and behind it for erosion (a window and its
# reflection), as opening and closing need it.
@function(gradient=PoolGradient)
def dilation(input: Map, size: Numbers, *, nan: NanRule | None = None) -> MaxPool:
    """Grey-scale dilation by a flat window of `size` (a number, or one per axis): the largest value around each
    element; the shape stays. Elements outside of the map take no part, which for odd sizes gives the result of
    scipy.ndimage.grey_dilation with its default border. The spatial axes follow from `layout`.

    For even sizes the window of dilation is that of erosion reflected, so that dilation(erosion(x)) never exceeds x.
    """
    return _flat(MaxPool, input, size, "SAME_UPPER", nan)


@function(gradient=PoolGradient)
def erosion(input: Map, size: Numbers, *, nan: NanRule | None = None) -> MaxPool:
    """Grey-scale erosion by a flat window of `size`: the smallest value around each element; see dilation."""
    return _flat(MinPool, input, size, "SAME_LOWER", nan)
