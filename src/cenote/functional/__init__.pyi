"""What `__init__.py` offers, for type checkers and editors. Made by `python -m tests.functional.interface`."""

# fmt: off
# ruff: noqa
from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex, overload

from cenote.functional.elementwise.chains import fused as fused
from cenote.functional.elementwise.recorder import Traced as Traced
from cenote.functional.types import A, Accumulate, ConvPadding, DLPack, Invalid, Layout, Layout1, Layout2, Layout3, NanRule, Numbers, Padding, Rules
from cenote.functional.ways.explanation import explain as explain

__all__: list[str]

def abs(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """|input|; the lowest integer stays itself."""

def acos(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Inverse cosine; NaN outside -1 .. 1."""

def acosh(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Inverse hyperbolic cosine; NaN below 1."""

def adaptive_avg_pool1d(
    input: A, output_size: int | Sequence[int | None] | None, *, out: A | None = None,
    layout: Layout1 = 'NCL', threads: int | None = None, algorithm: str | None = None,
    semantics: Rules = 'torch', accumulate: Accumulate | None = None,
) -> A:
    """Mean of each adaptive window over 1 spatial axis: see adaptive_avg_pool2d."""

def adaptive_avg_pool1d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of adaptive_avg_pool1d with respect to its input: grad_output, then the arguments of adaptive_avg_pool1d."""

def adaptive_avg_pool2d(
    input: A, output_size: int | Sequence[int | None] | None, *, out: A | None = None,
    layout: Layout2 = 'NCHW', threads: int | None = None, algorithm: str | None = None,
    semantics: Rules = 'torch', accumulate: Accumulate | None = None,
) -> A:
    """Mean of each adaptive window, as torch.nn.functional.adaptive_avg_pool2d: see adaptive_max_pool2d, avg_pool2d
    (`accumulate` too).
    """

def adaptive_avg_pool2d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of adaptive_avg_pool2d with respect to its input: grad_output, then the arguments of adaptive_avg_pool2d."""

def adaptive_avg_pool3d(
    input: A, output_size: int | Sequence[int | None] | None, *, out: A | None = None,
    layout: Layout3 = 'NCDHW', threads: int | None = None, algorithm: str | None = None,
    semantics: Rules = 'torch', accumulate: Accumulate | None = None,
) -> A:
    """Mean of each adaptive window over 3 spatial axes: see adaptive_avg_pool2d."""

def adaptive_avg_pool3d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of adaptive_avg_pool3d with respect to its input: grad_output, then the arguments of adaptive_avg_pool3d."""

@overload
def adaptive_max_pool1d(
    input: A, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = False, *,
    out: A | None = None, layout: Layout1 = 'NCL', threads: int | None = None, algorithm: str | None = None,
    semantics: Rules = 'torch', nan: NanRule | None = None,
) -> A:
    """Largest value of each adaptive window over 1 spatial axis: see adaptive_max_pool2d."""
@overload
def adaptive_max_pool1d(
    input: A, output_size: int | Sequence[int | None] | None, return_indices: bool = False, *,
    out: A | tuple[A, A] | None = None, layout: Layout1 = 'NCL', threads: int | None = None,
    algorithm: str | None = None, semantics: Rules = 'torch', nan: NanRule | None = None,
) -> Any:
    """Largest value of each adaptive window over 1 spatial axis: see adaptive_max_pool2d."""

def adaptive_max_pool1d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of adaptive_max_pool1d with respect to its input: grad_output, then the arguments of adaptive_max_pool1d."""

@overload
def adaptive_max_pool2d(
    input: A, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = False, *,
    out: A | None = None, layout: Layout2 = 'NCHW', threads: int | None = None, algorithm: str | None = None,
    semantics: Rules = 'torch', nan: NanRule | None = None,
) -> A:
    """Largest value of each adaptive window, as torch.nn.functional.adaptive_max_pool2d.

    output_size  number or pair; None keeps an extent, 0 gives an empty result. Window o of an axis covers
                 floor(o in / out) to ceil((o + 1) in / out), in exact integers
    layout       "NCHW", "NHWC" (batch optional), or "HW" for a plain map, which must be asked for
    return_indices, out, threads, semantics, nan: see max_pool2d
    """
@overload
def adaptive_max_pool2d(
    input: A, output_size: int | Sequence[int | None] | None, return_indices: bool = False, *,
    out: A | tuple[A, A] | None = None, layout: Layout2 = 'NCHW', threads: int | None = None,
    algorithm: str | None = None, semantics: Rules = 'torch', nan: NanRule | None = None,
) -> Any:
    """Largest value of each adaptive window, as torch.nn.functional.adaptive_max_pool2d.

    output_size  number or pair; None keeps an extent, 0 gives an empty result. Window o of an axis covers
                 floor(o in / out) to ceil((o + 1) in / out), in exact integers
    layout       "NCHW", "NHWC" (batch optional), or "HW" for a plain map, which must be asked for
    return_indices, out, threads, semantics, nan: see max_pool2d
    """

def adaptive_max_pool2d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of adaptive_max_pool2d with respect to its input: grad_output, then the arguments of adaptive_max_pool2d."""

@overload
def adaptive_max_pool3d(
    input: A, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = False, *,
    out: A | None = None, layout: Layout3 = 'NCDHW', threads: int | None = None, algorithm: str | None = None,
    semantics: Rules = 'torch', nan: NanRule | None = None,
) -> A:
    """Largest value of each adaptive window over 3 spatial axes: see adaptive_max_pool2d."""
@overload
def adaptive_max_pool3d(
    input: A, output_size: int | Sequence[int | None] | None, return_indices: bool = False, *,
    out: A | tuple[A, A] | None = None, layout: Layout3 = 'NCDHW', threads: int | None = None,
    algorithm: str | None = None, semantics: Rules = 'torch', nan: NanRule | None = None,
) -> Any:
    """Largest value of each adaptive window over 3 spatial axes: see adaptive_max_pool2d."""

def adaptive_max_pool3d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of adaptive_max_pool3d with respect to its input: grad_output, then the arguments of adaptive_max_pool3d."""

def add(
    input: A, other: Any, *, alpha: float = 1, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """input + alpha * other; of bool: or."""

def addmm(
    input: A, mat1: A, mat2: A, *, beta: float = 1, alpha: float = 1, out: A | None = None,
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """beta * input + alpha * (mat1 @ mat2), as torch.addmm.

    mat1 (M, K), mat2 (K, N); input broadcasts to (M, N). With beta = 0 the input is not read: NaN in it does not
    spread. Types, `out`, `threads`: see matmul; for integers alpha and beta must be whole numbers.
    """

def affine_grid(
    theta: A, size: Any, align_corners: bool | None = None, *, out: A | None = None,
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """The grid (N, *spatial, 2 or 3) for grid_sample of affine maps theta (N, 2, 3) or (N, 3, 4).

    size           (N, C, *spatial) of the image that grid_sample will give
    align_corners  as in grid_sample
    """

def alpha_dropout(
    input: A, p: float = 0.5, training: bool = False, inplace: bool = False, *,
    seed: SupportsIndex | None = None, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Dropout to SELU's lowest value, scaled and shifted so that mean 0 and variance 1 stay, as
    torch.nn.functional.alpha_dropout. Arguments: see dropout.
    """

def amax(
    input: A, dim: Any = (), keepdim: bool = False, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Largest along axes; NaN where one is NaN."""

def amin(
    input: A, dim: Any = (), keepdim: bool = False, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Smallest along axes; NaN where one is NaN."""

def argmax(
    input: A, dim: int | None = None, keepdim: bool = False, *, select_last_index: bool = False,
    out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """The place (int64) of the largest element along `dim`; without it, of all in row-major order.

    Of equal elements the first, or with `select_last_index` (as ONNX) the last. NaN is larger than any number, and of
    several NaN it is again the first or the last. An empty axis raises ShapeError.
    """

def argmin(
    input: A, dim: int | None = None, keepdim: bool = False, *, select_last_index: bool = False,
    out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """The place of the smallest element: see argmax. NaN is smaller than any number here, as in PyTorch."""

def argsort(
    input: A, dim: int = -1, descending: bool = False, *, stable: bool = False, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """The places along `dim` of the elements in order: the second result of `sort`."""

def asin(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Inverse sine; NaN outside -1 .. 1."""

def asinh(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Inverse hyperbolic sine."""

def atan(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Inverse tangent."""

def atanh(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Inverse hyperbolic tangent; NaN outside -1 .. 1."""

def avg_pool1d(
    input: A, kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0,
    ceil_mode: bool = False, count_include_pad: bool | None = None, divisor_override: int | None = None, *,
    dilation: Numbers = 1, out: A | None = None, layout: Layout1 = 'NCL', threads: int | None = None,
    algorithm: str | None = None, semantics: Rules = 'torch', accumulate: Accumulate | None = None,
) -> A:
    """Mean of each window over 1 spatial axis: see avg_pool2d. Layouts: NCL, NLC, L."""

def avg_pool1d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of avg_pool1d with respect to its input: grad_output, then the arguments of avg_pool1d."""

def avg_pool2d(
    input: A, kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0,
    ceil_mode: bool = False, count_include_pad: bool | None = None, divisor_override: int | None = None, *,
    dilation: Numbers = 1, out: A | None = None, layout: Layout2 = 'NCHW', threads: int | None = None,
    algorithm: str | None = None, semantics: Rules = 'torch', accumulate: Accumulate | None = None,
) -> A:
    """Mean of each window of (N, C, H, W), (C, H, W) or (H, W), as torch.nn.functional.avg_pool2d.

    input              array of float64, float32, float16, bfloat16, int8, uint8, int16, int32 or int64
    count_include_pad  whether the divisor counts taps on the padding (never those that ceil_mode adds beyond it); by
                       default what the semantics say: True for "torch"
    divisor_override   one divisor for all windows: 1 or more (with "torch" semantics also negative, never 0)
    accumulate         what sums of floats are taken in: None, their own type (16-bit floats: float32), where a sum may
                       overflow though its mean does not, and terms that cancel may take small ones with them;
                       "float64", where neither happens to float32 and narrower types; "compensated", their own type,
                       keeping what each addition loses (Neumaier): terms cancel exactly, sums may overflow
    kernel_size, stride, padding, dilation, ceil_mode, out, layout, threads, semantics: see max_pool2d

    Floats are summed in at least float32. Integers are summed in 64 bits and rounded by the semantics: "torch"
    truncates, "tensorflow" goes to the nearest with halves away from zero, the others to the nearest with halves to
    even. NaN and infinities stay in the windows that hold them.
    """

def avg_pool2d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of avg_pool2d with respect to its input: grad_output, then the arguments of avg_pool2d."""

def avg_pool3d(
    input: A, kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0,
    ceil_mode: bool = False, count_include_pad: bool | None = None, divisor_override: int | None = None, *,
    dilation: Numbers = 1, out: A | None = None, layout: Layout3 = 'NCDHW', threads: int | None = None,
    algorithm: str | None = None, semantics: Rules = 'torch', accumulate: Accumulate | None = None,
) -> A:
    """Mean of each window over 3 spatial axes: see avg_pool2d. Layouts: NCDHW, NDHWC, DHW."""

def avg_pool3d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of avg_pool3d with respect to its input: grad_output, then the arguments of avg_pool3d."""

def batch_norm(
    input: A, running_mean: A | None, running_var: A | None, weight: A | None = None, bias: A | None = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-05, *, out: A | None = None,
    threads: int | None = None,
) -> A:
    """(x - mean) / sqrt(variance + eps) * weight + bias per channel of (N, C, ...), as torch.nn.functional.batch_norm.

    training  False: mean and variance are running_mean and running_var, arrays of shape [C]. True: they are those of
              the batch (divided by N), and the running ones, where given, are changed in place: (1 - momentum) of the
              old plus momentum of the batch's (whose variance is divided by N - 1 there)
    weight, bias  arrays of shape [C]
    eps, out (may be the input), threads: see layer_norm

    Raises ShapeError in training with one value per channel, ArgumentError where running statistics are missing.
    """

def bitwise_and(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Bits that both have, of integers or bool."""

def bitwise_left_shift(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Integers moved by other bits to higher ones; 0 for a count outside 0 .. width - 1."""

def bitwise_not(
    input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """All bits flipped, of integers or bool."""

def bitwise_or(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Bits that one has, of integers or bool."""

def bitwise_right_shift(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Integers moved by other bits to lower ones, the sign kept; 0 or -1 for a count outside 0 .. width - 1."""

def bitwise_xor(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Bits that exactly one has, of integers or bool."""

def blur_pool(
    input: A, filter_size: Numbers = 4, stride: Numbers = 2, *,
    border: Literal['reflect', 'replicate', 'zeros'] = 'reflect', out: A | None = None,
    layout: Layout = 'NCHW', threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Filter by binomial weights (3 taps: 1 2 1 / 4), then keep every stride-th element: subsampling that does not
    alias (Zhang, arXiv 1904.11486). The result has ceil(in / stride) elements per axis.

    filter_size  number, or one per axis; (k - 1) // 2 elements are added before and k // 2 after each axis
    border       how: "reflect", "replicate" or "zeros"
    Float types; layout (which sets the spatial axes), out, threads: see max_pool2d.
    """

def blur_pool_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of blur_pool with respect to its input: grad_output, then the arguments of blur_pool."""

def bmm(
    input: A, mat2: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Products of matrices pair by pair, (B, M, K) and (B, K, N), as torch.bmm: nothing broadcasts. See matmul."""

def cat(
    tensors: Sequence[A], dim: int = 0, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Arrays of one type one behind the other along an axis. Arrays of shape (0,) are left out, as torch has it."""

def ceil(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Rounded up; integers stay."""

def celu(
    input: A, alpha: float = 1.0, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """input, below 0 alpha * (exp(input / alpha) - 1)."""

def channel_shuffle(
    input: A, groups: int, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """(N, C, *): channels of `groups` groups taken in turn from each."""

def clamp(
    input: A, min: Any = None, max: Any = None, *, out: A | None = None, threads: int | None = None,
) -> A:
    """input held within min .. max (numbers, arrays or None; at least one of them); max wins where they cross, NaN in
    input or a bound gives NaN.
    """

def conv1d(
    input: A, weight: A, bias: A | None = None, stride: Numbers = 1, padding: ConvPadding = 0,
    dilation: Numbers = 1, groups: int = 1, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Cross-correlation over 1 spatial axis, as torch.nn.functional.conv1d: see conv2d."""

def conv2d(
    input: A, weight: A, bias: A | None = None, stride: Numbers = 1, padding: ConvPadding = 0,
    dilation: Numbers = 1, groups: int = 1, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Cross-correlation of (N, C, H, W) or (C, H, W), as torch.nn.functional.conv2d.

    weight     (filters, C / groups, kh, kw), of the input's type: float64, float32, float16 or bfloat16
    bias       (filters,) or None
    stride     number or one per axis, default 1
    padding    zeros on both sides: number or one per axis; "valid" (none) or "same" (the output has the input's
               extents; the odd one comes at the end; stride 1 only)
    dilation   distance of the window's taps, default 1
    groups     the channels of a group are seen by its filters only; divides C and filters
    out        an array for the result
    threads    threads to use; None: as many as there are cores

    Sums are plain sums in float32 (float64 for float64), rounded once; the same bits for any number of threads.
    Raises ShapeError, DTypeError and ArgumentError where input, weights and arguments do not fit.
    """

def conv3d(
    input: A, weight: A, bias: A | None = None, stride: Numbers = 1, padding: ConvPadding = 0,
    dilation: Numbers = 1, groups: int = 1, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Cross-correlation over 3 spatial axes, as torch.nn.functional.conv3d: see conv2d."""

def conv_transpose1d(
    input: A, weight: A, bias: A | None = None, stride: Numbers = 1, padding: Numbers = 0,
    output_padding: Numbers = 0, groups: int = 1, dilation: Numbers = 1, *, out: A | None = None,
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Transposed convolution over 1 spatial axis, as torch.nn.functional.conv_transpose1d: see conv_transpose2d."""

def conv_transpose2d(
    input: A, weight: A, bias: A | None = None, stride: Numbers = 1, padding: Numbers = 0,
    output_padding: Numbers = 0, groups: int = 1, dilation: Numbers = 1, *, out: A | None = None,
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Transposed convolution of (N, C, H, W) or (C, H, W), as torch.nn.functional.conv_transpose2d.

    weight          (C, filters / groups, kh, kw), of the input's type
    padding         rows and columns cut off the result on both sides
    output_padding  rows and columns added at the end of the result, fewer than stride or dilation
    bias, stride, groups, dilation, out, threads: see conv2d

    The output's extent is (in - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1.
    """

def conv_transpose3d(
    input: A, weight: A, bias: A | None = None, stride: Numbers = 1, padding: Numbers = 0,
    output_padding: Numbers = 0, groups: int = 1, dilation: Numbers = 1, *, out: A | None = None,
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Transposed convolution over 3 spatial axes, as torch.nn.functional.conv_transpose3d: see conv_transpose2d."""

def cos(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Cosine of radians."""

def cosh(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Hyperbolic cosine."""

def cumprod(
    input: A, dim: int, *, dtype: Any = None, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Product of the elements up to each place along an axis."""

def cumsum(
    input: A, dim: int, *, dtype: Any = None, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Sum of the elements up to each place along an axis."""

def deform_conv2d(
    input: A, offset: A, weight: A, bias: A | None = None, stride: Numbers = 1, padding: Numbers = 0,
    dilation: Numbers = 1, mask: A | None = None, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Convolution whose taps are moved by offsets and weighted by a mask, as torchvision.ops.deform_conv2d.

    input   (N, C, H, W)
    offset  (N, 2 parts kh kw, out_h, out_w): y, x of each tap; each of the parts moves C / parts channels
    weight  (filters, C / groups, kh, kw)
    bias    (filters,) or None
    mask    (N, parts kh kw, out_h, out_w) or None
    """

def dilation(
    input: A, size: Numbers, *, out: A | None = None, layout: Layout = 'NCHW', threads: int | None = None,
    algorithm: str | None = None, nan: NanRule | None = None,
) -> A:
    """Grey-scale dilation by a flat window of `size` (a number, or one per axis): the largest value around each
    element; the shape stays. Elements outside of the map take no part, which for odd sizes gives the result of
    scipy.ndimage.grey_dilation with its default border. The spatial axes follow from `layout`.

    For even sizes the window of dilation is that of erosion reflected, so that dilation(erosion(x)) never exceeds x.
    """

def dilation_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of dilation with respect to its input: grad_output, then the arguments of dilation."""

def div(
    input: A, other: Any, *, rounding_mode: str | None = None, out: A | None = None,
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input / other. `rounding_mode`: None divides integers as float32; "trunc" rounds toward zero, "floor" down, and
    integers stay integers.
    """

def dropout(
    input: A, p: float = 0.5, training: bool = True, inplace: bool = False, *,
    seed: SupportsIndex | None = None, return_mask: bool = False, out: A | None = None,
    threads: int | None = None, algorithm: str | None = None,
) -> Any:
    """Each element zero with probability p, else times 1 / (1 - p), as torch.nn.functional.dropout.

    p            0 to 1, taken to the nearest multiple of 2^-32; with 1 all is zero
    training     False: the input, copied
    inplace      the result is written to the input; so it is with out=input
    seed         0 to 2^64 - 1; None: other numbers each call
    return_mask  the result is (y, mask): what was kept, as bool (all of it when not training)

    A NaN that is dropped becomes zero (in PyTorch it stays). Raises ArgumentError for a p that is no probability,
    DTypeError for types that are no floats.
    """

def dropout1d(
    input: A, p: float = 0.5, training: bool = True, inplace: bool = False, *,
    seed: SupportsIndex | None = None, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Whole channels of (N, C, L) or (C, L) dropped: see dropout."""

def dropout2d(
    input: A, p: float = 0.5, training: bool = True, inplace: bool = False, *,
    seed: SupportsIndex | None = None, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Whole channels of (N, C, H, W) dropped (of three axes: those of (N, C, L), as PyTorch): see dropout."""

def dropout3d(
    input: A, p: float = 0.5, training: bool = True, inplace: bool = False, *,
    seed: SupportsIndex | None = None, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Whole channels of (N, C, D, H, W) or (C, D, H, W) dropped: see dropout."""

def elu(
    input: A, alpha: float = 1.0, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """input, below 0 alpha * (exp(input) - 1)."""

def embedding(
    input: DLPack, weight: A, padding_idx: int | None = None, max_norm: None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False, *, invalid: Invalid = 'raise',
    out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Rows of `weight` (rows, columns) by the numbers in `input` (any shape): shape (*input.shape, columns).

    padding_idx, norm_type, scale_grad_by_freq, sparse   matter for gradients only, as in PyTorch
    max_norm     must be None: PyTorch's would change `weight`
    invalid      see the module; out: an array to write to; threads: default as for pools

    Raises ShapeError, DTypeError, ArgumentError; InputError for a bad index.
    """

def embedding_bag(
    input: DLPack, weight: A, offsets: DLPack | None = None, max_norm: None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, mode: Literal['sum', 'mean', 'max'] = 'mean', sparse: bool = False,
    per_sample_weights: DLPack | None = None, include_last_offset: bool = False,
    padding_idx: int | None = None, *, invalid: Invalid = 'raise', out: A | None = None,
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """The sum, mean or maximum of the rows of `weight` that each bag of indices names: shape (bags, columns).

    input        int32 or int64: (bags, n), or a list cut into bags by `offsets`
    weight       (rows, columns), a float type; sums are taken in float32 at least
    offsets      where each bag of a list begins, rising from 0; with `include_last_offset` the end of the last too
    per_sample_weights   a factor for each index, for mode "sum"
    padding_idx  indices of this row are passed over and do not count in a mean; so are bad ones with invalid="zero"
    max_norm     must be None: PyTorch's would change `weight`
    norm_type, scale_grad_by_freq, sparse   matter for gradients only, as in PyTorch

    An empty bag gives zeros. NaN wins in "max".
    Raises ShapeError, DTypeError, ArgumentError; InputError for a bad index.
    """

def eq(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input == other, as bool; NaN equals nothing."""

def erf(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Gauss error function."""

def erosion(
    input: A, size: Numbers, *, out: A | None = None, layout: Layout = 'NCHW', threads: int | None = None,
    algorithm: str | None = None, nan: NanRule | None = None,
) -> A:
    """Grey-scale erosion by a flat window of `size`: the smallest value around each element; see dilation."""

def erosion_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of erosion with respect to its input: grad_output, then the arguments of erosion."""

def exp(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """e to the power of input."""

def exp2(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """2 to the power of input."""

def expm1(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """e to the power of input, less 1, without cancellation."""

def feature_alpha_dropout(
    input: A, p: float = 0.5, training: bool = False, inplace: bool = False, *,
    seed: SupportsIndex | None = None, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """alpha_dropout of whole channels of (N, C, ...)."""

def flip(
    input: A, dims: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Axes reversed."""

def floor(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Rounded down; integers stay."""

def floor_divide(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input / other rounded down: Python's //, what is left of input when the remainder is gone, so that
    floor_divide(5, 0.1) is 49 (0.1 is a little more than a tenth). Of floats -1 // inf is -1, inf // 2 NaN and x // 0
    x / 0; the exact quotient is rounded once, where PyTorch rounds in between.
    """

def fmod(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input - trunc(input / other) * other: the sign of input, as C's fmod."""

def fold(
    input: A, output_size: Numbers, kernel_size: Numbers, dilation: Numbers = 1, padding: Numbers = 0,
    stride: Numbers = 1, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Columns (N, C kh kw, windows) or without N added up to images (N, C, *output_size): the transpose of unfold."""

@overload
def fractional_max_pool2d(
    input: A, kernel_size: Numbers, output_size: Numbers | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: Literal[False] = False,
    _random_samples: DLPack | None = None, *, seed: int | None = None, out: A | None = None,
    layout: Layout2 = 'NCHW', threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Largest values of windows at pseudo-random steps, as torch.nn.functional.fractional_max_pool2d.

    output_size, output_ratio  exactly one of them: extents, or fractions of the input's between 0 and 1
    _random_samples            (N, C, 2) numbers in [0, 1) in PyTorch's order (width, height)
    seed                       instead of samples: the same seed gives the same windows on every machine; without
                               either every call draws anew
    input, kernel_size, return_indices, out, layout, threads: see max_pool2d
    """
@overload
def fractional_max_pool2d(
    input: A, kernel_size: Numbers, output_size: Numbers | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: DLPack | None = None, *, seed: int | None = None, out: A | tuple[A, A] | None = None,
    layout: Layout2 = 'NCHW', threads: int | None = None, algorithm: str | None = None,
) -> Any:
    """Largest values of windows at pseudo-random steps, as torch.nn.functional.fractional_max_pool2d.

    output_size, output_ratio  exactly one of them: extents, or fractions of the input's between 0 and 1
    _random_samples            (N, C, 2) numbers in [0, 1) in PyTorch's order (width, height)
    seed                       instead of samples: the same seed gives the same windows on every machine; without
                               either every call draws anew
    input, kernel_size, return_indices, out, layout, threads: see max_pool2d
    """

def fractional_max_pool2d_backward(
    grad_output: A, input: A, indices: DLPack, *, out: A | None = None, layout: Layout2 = 'NCHW',
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Gradient of fractional_max_pool2d by the indices that it gave (return_indices=True)."""

@overload
def fractional_max_pool3d(
    input: A, kernel_size: Numbers, output_size: Numbers | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: Literal[False] = False,
    _random_samples: DLPack | None = None, *, seed: int | None = None, out: A | None = None,
    layout: Layout3 = 'NCDHW', threads: int | None = None, algorithm: str | None = None,
) -> A:
    """As fractional_max_pool2d over three spatial axes; samples (N, C, 3) are for depth, height, width."""
@overload
def fractional_max_pool3d(
    input: A, kernel_size: Numbers, output_size: Numbers | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: DLPack | None = None, *, seed: int | None = None, out: A | tuple[A, A] | None = None,
    layout: Layout3 = 'NCDHW', threads: int | None = None, algorithm: str | None = None,
) -> Any:
    """As fractional_max_pool2d over three spatial axes; samples (N, C, 3) are for depth, height, width."""

def fractional_max_pool3d_backward(
    grad_output: A, input: A, indices: DLPack, *, out: A | None = None, layout: Layout3 = 'NCDHW',
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Gradient of fractional_max_pool3d by the indices that it gave (return_indices=True)."""

def gather(
    input: A, dim: int, index: DLPack, *, sparse_grad: bool = False, invalid: Invalid = 'raise',
    out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """y[i, j, k] = input[index[i, j, k], j, k] for dim 0, and so on: one element per index.

    `index` has as many axes as `input` and is no longer on any but `dim`; the result has its shape.
    """

def ge(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input >= other, as bool; false where one is NaN."""

def gelu(
    input: A, approximate: str = 'none', *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """input * Phi(input), by erf ("none") or "tanh"."""

def gem_pool(
    input: A, p: float = 3.0, eps: float = 1e-06, kernel_size: Numbers | None = None,
    stride: Numbers | None = None, padding: Padding = 0, dilation: Numbers = 1, ceil_mode: bool = False, *,
    out: A | None = None, layout: Layout = 'NCHW', threads: int | None = None, algorithm: str | None = None,
    semantics: Rules = 'torch',
) -> A:
    """Generalised mean (mean max(x, eps)^p)^(1/p) of each window, without kernel_size of the whole map (Radenovic et
    al., arXiv 1711.02512). p = 1 is the mean, inf the maximum. Float types; other arguments as in max_pool2d, spatial
    axes by `layout`; padding takes no part.
    """

def gem_pool_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of gem_pool with respect to its input: grad_output, then the arguments of gem_pool."""

def global_avg_pool(
    input: A, *, out: A | None = None, layout: Layout = 'NCHW', threads: int | None = None,
    algorithm: str | None = None, semantics: Rules = 'torch', accumulate: Accumulate | None = None,
) -> A:
    """Mean of the whole map: (N, C, H, W) gives (N, C, 1, 1); float32 means of 16 million elements are right to 1e-6.
    Layouts as in global_max_pool, types, rounding and accumulate as in avg_pool2d.
    """

def global_avg_pool_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of global_avg_pool with respect to its input: grad_output, then the arguments of global_avg_pool."""

def global_lp_pool(
    input: A, norm_type: float = 2.0, *, out: A | None = None, layout: Layout = 'NCHW',
    threads: int | None = None, algorithm: str | None = None, accumulate: Accumulate | None = None,
) -> A:
    """(sum |x|^p)^(1/p) of the whole map, p = norm_type: (N, C, H, W) gives (N, C, 1, 1). Layouts as in
    global_max_pool, accumulate as in lp_pool2d; float types only.
    """

def global_lp_pool_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of global_lp_pool with respect to its input: grad_output, then the arguments of global_lp_pool."""

def global_max_pool(
    input: A, *, out: A | None = None, layout: Layout = 'NCHW', threads: int | None = None,
    algorithm: str | None = None, semantics: Rules = 'torch', nan: NanRule | None = None,
) -> A:
    """Largest value of the whole map: (N, C, H, W) gives (N, C, 1, 1). `layout` sets the number of spatial axes
    ("NCL" 1, "NCHW" 2, "NCDHW" 3, and their channels-last and plain forms); out, threads, nan: see max_pool2d.
    """

def global_max_pool_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of global_max_pool with respect to its input: grad_output, then the arguments of global_max_pool."""

def grid_sample(
    input: A, grid: A, mode: str = 'bilinear', padding_mode: str = 'zeros', align_corners: bool | None = None,
    *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input (N, C, *spatial) of 2 or 3 spatial axes read at the places grid (N, *out, 2 or 3): (N, C, *out).

    grid           places, the last axis first, from -1 to 1, of the input's float type
    mode           "bilinear" (for volumes trilinear), "nearest" (halves to even), "bicubic" (2 axes)
    padding_mode   beyond the image: "zeros", "border" (its edge), "reflection" (mirrored at its edge)
    align_corners  -1 and 1 are the centres of the corner pixels, else (by default) their outer edges

    A place that is NaN is far below.
    """

def group_norm(
    input: A, num_groups: SupportsIndex, weight: A | None = None, bias: A | None = None, eps: float = 1e-05,
    *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Normalisation of (N, C, ...) over groups of neighbouring channels, as torch.nn.functional.group_norm.

    num_groups    divides C
    weight, bias  arrays of shape [C]
    eps, out (may be the input), threads: see layer_norm
    """

def gru(
    input: A, hx: A | None, params: Sequence[A], has_biases: bool = True, num_layers: int = 1,
    dropout: float = 0.0, train: bool = False, bidirectional: bool = False, batch_first: bool = False, *,
    threads: int | None = None,
) -> tuple[A, A]:
    """Gated recurrent units, as torch.gru: the states and the last states. See the module."""

def gt(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input > other, as bool; false where one is NaN."""

def hardshrink(
    input: A, lambd: float = 0.5, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """0 where input is within -lambd .. lambd; NaN stays."""

def hardsigmoid(
    input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input / 6 + 1/2 held within 0 .. 1."""

def hardswish(
    input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input * hardsigmoid(input)."""

def hardtanh(
    input: A, min_val: float = -1.0, max_val: float = 1.0, *, out: A | None = None,
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input held within min_val .. max_val; NaN stays."""

def index_select(
    input: A, dim: int, index: DLPack, *, invalid: Invalid = 'raise', out: A | None = None,
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """The slices of `input` along `dim` that the list `index` names, in its order."""

def instance_norm(
    input: A, running_mean: A | None = None, running_var: A | None = None, weight: A | None = None,
    bias: A | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-05, *,
    out: A | None = None, threads: int | None = None,
) -> A:
    """Normalisation per picture and channel of (N, C, *spatial), as torch.nn.functional.instance_norm.

    use_input_stats  False: by running_mean and running_var, as batch_norm does. True: by the input's own statistics;
                     running ones, where given, are changed in place towards the means of all pictures' (in NumPy)
    weight, bias     arrays of shape [C]
    eps, out (may be the input), threads: see layer_norm
    """

def interpolate(
    input: A, size: Numbers | None = None, scale_factor: Any = None, mode: str = 'nearest',
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None, antialias: bool = False, *,
    out: A | None = None, threads: int | None = None,
) -> A:
    """(N, C, *spatial) resized to `size`, or by `scale_factor` (sizes rounded down).

    size, scale_factor      one of them: a number or one per spatial axis
    mode                    "nearest" (rounds places down), "nearest-exact" (the nearest pixel's centre), "area"
                            (means of adaptive windows), "linear" (1 axis), "bilinear", "bicubic" (2 axes),
                            "trilinear" (3 axes)
    align_corners           the centres of the corner pixels, not their outer edges, lie on each other; filters only
    recompute_scale_factor  places by the sizes' ratio instead of scale_factor itself
    antialias               filters as wide as the reduction; "bilinear" and "bicubic"

    Floats of any width and, for "nearest" and "nearest-exact", any type; filters take uint8 too and round what floats
    would give (PyTorch's bicubic filter of bytes is up to 14 off that). Places are decided in float32, by PyTorch's
    formulas (filters of float64: in float64).
    """

def isfinite(
    input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """True where input is neither infinite nor NaN, as bool."""

def isinf(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """True where input is infinite, as bool."""

def isnan(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """True where input is NaN, as bool."""

def layer_norm(
    input: A, normalized_shape: SupportsIndex | Sequence[SupportsIndex], weight: A | None = None,
    bias: A | None = None, eps: float = 1e-05, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axes, as torch.nn.functional.layer_norm.

    normalized_shape  the extents of the last axes of the input, over which mean and variance run
    weight, bias      arrays of that shape, of the input's type or float32
    eps               a number; a negative one, which PyTorch allows too, gives NaN where it outweighs the variance
    out               where to write the result; may be the input itself
    threads           how many may work; by default one per physical core

    Raises ShapeError for shapes that do not fit, ArgumentError for other arguments, DTypeError for types that are no
    floats.
    """

def le(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input <= other, as bool; false where one is NaN."""

def leaky_relu(
    input: A, negative_slope: float = 0.01, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """input, below 0 times negative_slope."""

def linear(
    input: A, weight: A, bias: A | None = None, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """input @ weight.T + bias, as torch.nn.functional.linear.

    input (*, in_features), weight (out_features, in_features) or (in_features,), bias (out_features,) or None; all of
    one float type. Types, `out`, `threads`: see matmul. Raises ShapeError and DTypeError where they do not fit.
    """

def local_response_norm(
    input: A, size: SupportsIndex, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0, *,
    out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """x / (k + alpha * mean of x² over `size` channels around each)^beta of (N, C, ...), as
    torch.nn.functional.local_response_norm: channels beyond the ends count as zeros; the window of an even size has
    one channel more before than after its own.
    """

def log(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Natural logarithm; NaN below 0."""

def log10(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Logarithm to base 10; NaN below 0."""

def log1p(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """log(1 + input) without cancellation; NaN below -1."""

def log2(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Logarithm to base 2; NaN below 0."""

def log_softmax(
    input: A, dim: SupportsIndex | None = None, *, dtype: Any = None, out: A | None = None,
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """x - log(sum of exp(x)) along `dim`, as torch.nn.functional.log_softmax: see softmax."""

def logical_and(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Whether both differ from 0, as bool."""

def logical_not(
    input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Whether input is 0, as bool."""

def logical_or(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Whether one differs from 0, as bool."""

def logical_xor(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Whether exactly one differs from 0, as bool."""

def logsigmoid(
    input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """log(sigmoid(input)), without overflow."""

def logsumexp(
    input: A, dim: Any, keepdim: bool = False, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """log(sum exp(input)) along axes, without overflow; of integers as float32."""

def lp_pool1d(
    input: A, norm_type: float, kernel_size: Numbers, stride: Numbers | None = None, ceil_mode: bool = False,
    *, padding: Padding = 0, dilation: Numbers = 1, out: A | None = None, layout: Layout1 = 'NCL',
    threads: int | None = None, algorithm: str | None = None, semantics: Rules | None = None,
    accumulate: Accumulate | None = None,
) -> A:
    """Lp norm of each window over 1 spatial axis: see lp_pool2d. Layouts: NCL, NLC, L."""

def lp_pool1d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of lp_pool1d with respect to its input: grad_output, then the arguments of lp_pool1d."""

def lp_pool2d(
    input: A, norm_type: float, kernel_size: Numbers, stride: Numbers | None = None, ceil_mode: bool = False,
    *, padding: Padding = 0, dilation: Numbers = 1, out: A | None = None, layout: Layout2 = 'NCHW',
    threads: int | None = None, algorithm: str | None = None, semantics: Rules | None = None,
    accumulate: Accumulate | None = None,
) -> A:
    """(sum |x|^p)^(1/p) of each window of (N, C, H, W), (C, H, W) or (H, W); p = norm_type, inf for the largest |x|.

    The arguments are those of torch.nn.functional.lp_pool2d, and padding and dilation as in max_pool2d. Without
    `semantics` the result is the norm of the real elements, of sizes as PyTorch's. semantics="torch" asks for what
    PyTorch computes: sum x^p without the absolute value (NaN for odd p and negative sums), and windows that ceil_mode
    lets overhang scaled as if they were full: for [1, 2, 3, 4, 5], p 2, window 2, the last value is 7.07 then, not 5.

    Float types only; sums are taken in at least float32, so float16 does not overflow unless its result does. The
    squares of float32 beyond 1.8e19 do, and those below 1e-23 vanish: accumulate="float64" takes them in float64
    ("compensated": see avg_pool2d). Powers other than 1 and 2 are float64 anyway.
    """

def lp_pool2d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of lp_pool2d with respect to its input: grad_output, then the arguments of lp_pool2d."""

def lp_pool3d(
    input: A, norm_type: float, kernel_size: Numbers, stride: Numbers | None = None, ceil_mode: bool = False,
    *, padding: Padding = 0, dilation: Numbers = 1, out: A | None = None, layout: Layout3 = 'NCDHW',
    threads: int | None = None, algorithm: str | None = None, semantics: Rules | None = None,
    accumulate: Accumulate | None = None,
) -> A:
    """Lp norm of each window over 3 spatial axes: see lp_pool2d. Layouts: NCDHW, NDHWC, DHW."""

def lp_pool3d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of lp_pool3d with respect to its input: grad_output, then the arguments of lp_pool3d."""

def lstm(
    input: A, hx: tuple[A, A] | None, params: Sequence[A], has_biases: bool = True, num_layers: int = 1,
    dropout: float = 0.0, train: bool = False, bidirectional: bool = False, batch_first: bool = False, *,
    threads: int | None = None,
) -> tuple[A, A, A]:
    """Long short-term memory, as torch.lstm: the states, the last states, the last cells. See the module."""

def lt(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input < other, as bool; false where one is NaN."""

def masked_select(input: A, mask: DLPack, *, out: A | None = None, threads: int | None = None) -> A:
    """The elements of `input` where `mask` (bool) holds, in row-major order, as a list; both broadcast.

    out: a list of as many elements as the mask lets through. The mask must not change meanwhile.
    Raises DTypeError, ShapeError; ArgumentError for an `out` of another size.
    """

def matmul(
    input: A, other: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
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

@overload
def max_pool1d(
    input: A, kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0,
    dilation: Numbers = 1, ceil_mode: bool = False, return_indices: Literal[False] = False, *,
    out: A | None = None, layout: Layout1 = 'NCL', threads: int | None = None, algorithm: str | None = None,
    semantics: Rules = 'torch', nan: NanRule | None = None,
) -> A:
    """Largest value of each window over 1 spatial axis: see max_pool2d. Layouts: NCL, NLC, L."""
@overload
def max_pool1d(
    input: A, kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0,
    dilation: Numbers = 1, ceil_mode: bool = False, return_indices: bool = False, *,
    out: A | tuple[A, A] | None = None, layout: Layout1 = 'NCL', threads: int | None = None,
    algorithm: str | None = None, semantics: Rules = 'torch', nan: NanRule | None = None,
) -> Any:
    """Largest value of each window over 1 spatial axis: see max_pool2d. Layouts: NCL, NLC, L."""

def max_pool1d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of max_pool1d with respect to its input: grad_output, then the arguments of max_pool1d."""

@overload
def max_pool2d(
    input: A, kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0,
    dilation: Numbers = 1, ceil_mode: bool = False, return_indices: Literal[False] = False, *,
    out: A | None = None, layout: Layout2 = 'NCHW', threads: int | None = None, algorithm: str | None = None,
    semantics: Rules = 'torch', nan: NanRule | None = None,
) -> A:
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
@overload
def max_pool2d(
    input: A, kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0,
    dilation: Numbers = 1, ceil_mode: bool = False, return_indices: bool = False, *,
    out: A | tuple[A, A] | None = None, layout: Layout2 = 'NCHW', threads: int | None = None,
    algorithm: str | None = None, semantics: Rules = 'torch', nan: NanRule | None = None,
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

def max_pool2d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of max_pool2d with respect to its input: grad_output, then the arguments of max_pool2d."""

@overload
def max_pool3d(
    input: A, kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0,
    dilation: Numbers = 1, ceil_mode: bool = False, return_indices: Literal[False] = False, *,
    out: A | None = None, layout: Layout3 = 'NCDHW', threads: int | None = None, algorithm: str | None = None,
    semantics: Rules = 'torch', nan: NanRule | None = None,
) -> A:
    """Largest value of each window over 3 spatial axes: see max_pool2d. Layouts: NCDHW, NDHWC, DHW."""
@overload
def max_pool3d(
    input: A, kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0,
    dilation: Numbers = 1, ceil_mode: bool = False, return_indices: bool = False, *,
    out: A | tuple[A, A] | None = None, layout: Layout3 = 'NCDHW', threads: int | None = None,
    algorithm: str | None = None, semantics: Rules = 'torch', nan: NanRule | None = None,
) -> Any:
    """Largest value of each window over 3 spatial axes: see max_pool2d. Layouts: NCDHW, NDHWC, DHW."""

def max_pool3d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of max_pool3d with respect to its input: grad_output, then the arguments of max_pool3d."""

def max_unpool1d(
    input: A, indices: DLPack, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0,
    output_size: Numbers | None = None, *, out: A | None = None, layout: Layout1 = 'NCL',
    threads: int | None = None, algorithm: str | None = None, semantics: Rules = 'torch',
) -> A:
    """Partial inverse of max_pool1d: see max_unpool2d."""

def max_unpool1d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of max_unpool1d with respect to its input: grad_output, then the arguments of max_unpool1d."""

def max_unpool2d(
    input: A, indices: DLPack, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0,
    output_size: Numbers | None = None, *, out: A | None = None, layout: Layout2 = 'NCHW',
    threads: int | None = None, algorithm: str | None = None, semantics: Rules = 'torch',
) -> A:
    """Write each value to the place its index names, zeros elsewhere, as torch.nn.functional.max_unpool2d.

    input, indices  what max_pool2d with return_indices gave, of one shape; indices int64, counting as `semantics` say
    kernel_size, stride, padding   of the pool; without output_size the extents are
                    (in - 1) stride - 2 padding + kernel_size
    output_size     spatial extents (or the whole shape), less than a stride from that
    out, layout, threads: see max_pool2d; with layout="NHWC" a whole shape is (N, H, W, C)

    Where indices are equal the last value in row-major order stays, always. Negative indices and those outside of the
    plane raise InputError.
    """

def max_unpool2d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of max_unpool2d with respect to its input: grad_output, then the arguments of max_unpool2d."""

def max_unpool3d(
    input: A, indices: DLPack, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0,
    output_size: Numbers | None = None, *, out: A | None = None, layout: Layout3 = 'NCDHW',
    threads: int | None = None, algorithm: str | None = None, semantics: Rules = 'torch',
) -> A:
    """Partial inverse of max_pool3d: see max_unpool2d."""

def max_unpool3d_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of max_unpool3d with respect to its input: grad_output, then the arguments of max_unpool3d."""

def maximum(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """The larger of both; NaN where one is NaN."""

def mean(
    input: A, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: A | None = None,
    threads: int | None = None, algorithm: str | None = None, accumulate: Accumulate | None = None,
) -> A:
    """Arithmetic mean along axes, of floats; of nothing NaN."""

def median_pool(
    input: A, kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0,
    dilation: Numbers = 1, ceil_mode: bool = False, *, out: A | None = None, layout: Layout = 'NCHW',
    threads: int | None = None, algorithm: str | None = None, semantics: Rules = 'torch',
) -> A:
    """Median of the real elements of each window; of an even number, the mean of the middle two (truncated for
    integers). NaN propagates. Arguments as in max_pool2d, spatial axes by `layout`.
    """

def median_pool_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of median_pool with respect to its input: grad_output, then the arguments of median_pool."""

@overload
def min_pool(
    input: A, kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0,
    dilation: Numbers = 1, ceil_mode: bool = False, return_indices: Literal[False] = False, *,
    out: A | None = None, layout: Layout = 'NCHW', threads: int | None = None, algorithm: str | None = None,
    semantics: Rules = 'torch', nan: NanRule | None = None,
) -> A:
    """Smallest value of each window: max_pool2d with the order reversed. `layout` also sets the number of spatial axes
    ("NCL" 1, "NCHW" 2, "NCDHW" 3, and their channels-last and plain forms).
    """
@overload
def min_pool(
    input: A, kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0,
    dilation: Numbers = 1, ceil_mode: bool = False, return_indices: bool = False, *,
    out: A | tuple[A, A] | None = None, layout: Layout = 'NCHW', threads: int | None = None,
    algorithm: str | None = None, semantics: Rules = 'torch', nan: NanRule | None = None,
) -> Any:
    """Smallest value of each window: max_pool2d with the order reversed. `layout` also sets the number of spatial axes
    ("NCL" 1, "NCHW" 2, "NCDHW" 3, and their channels-last and plain forms).
    """

def min_pool_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of min_pool with respect to its input: grad_output, then the arguments of min_pool."""

def minimum(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """The smaller of both; NaN where one is NaN."""

def mish(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """input * tanh(softplus(input))."""

def mm(
    input: A, mat2: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """The product of two matrices (M, K) and (K, N), as torch.mm: see matmul. Raises ShapeError for other ranks."""

def mul(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input * other; of bool: and."""

def ne(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input != other, as bool."""

def neg(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """-input; the lowest integer stays itself."""

def nms(
    boxes: A, scores: DLPack, iou_threshold: float, *, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Greedy non-maximum suppression as torchvision.ops.nms: the boxes to keep (int64), best score first.

    boxes    (n, 4) as (x1, y1, x2, y2); scores (n); both of one float type
    A box is dropped when its intersection with a better kept box, divided by their union, is above `iou_threshold`.
    Equal scores keep the order of the boxes; a score that is NaN is the best.
    """

def nonzero(input: A, *, as_tuple: bool = False, out: A | None = None, threads: int | None = None) -> Any:
    """The coordinates (int64) of the elements that are not zero, in row-major order: shape (count, axes).

    NaN is not zero. With `as_tuple` a list of coordinates per axis instead, as numpy.nonzero gives (`out` must be
    None); a scalar then counts as a list of one.
    """

def norm(
    input: A, p: float = 2, dim: Any = None, keepdim: bool = False, *, out: A | None = None,
    threads: int | None = None, accumulate: Accumulate | None = None,
) -> A:
    """(sum |input|^p)^(1/p) along axes: of vectors for every dim. p may be infinite (largest or smallest |input|) and 0
    (how many differ from 0).
    """

def normalize(
    input: A, p: float = 2.0, dim: SupportsIndex = 1, eps: float = 1e-12, out: A | None = None, *,
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """x / max(p-norm of x along dim, eps), as torch.nn.functional.normalize.

    p of 1, 2 and infinity run natively, others in NumPy. A line of zeros gives zeros, with eps 0 too (PyTorch: NaN).
    `out` may be the input.
    """

def one_hot(
    input: A, num_classes: int = -1, *, dim: int = -1, on_value: Any = 1, off_value: Any = 0,
    dtype: Any = ..., invalid: Invalid = 'raise', out: A | None = None, threads: int | None = None,
) -> A:
    """`on_value` where the new axis `dim` of `num_classes` places meets the index, `off_value` elsewhere.

    input        int32 or int64 of any shape; num_classes -1: the largest index + 1
    dtype        of the result, int64 as in PyTorch by default (a NumPy dtype or its name); DTypeError where it does not
                 hold the two values
    invalid      what an index outside of 0 to num_classes - 1 does: see `embedding`; with "zero" no place is on

    Raises ArgumentError, DTypeError; InputError for a bad index.
    """

def pad(
    input: A, pad: Sequence[int], mode: str = 'constant', value: float | None = None, *, out: A | None = None,
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Borders around the last axes: (begin, end) of the last axis, then of the one before, and so on; negative ones
    crop. Modes: "constant" (of `value`, by default 0), "reflect" (without the edge; narrower than the axis),
    "replicate" (the edge), "circular" (at most the axis).
    """

def permute(
    input: A, dims: Sequence[int], *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Axis i of the result is axis dims[i] of input."""

def pixel_shuffle(
    input: A, upscale_factor: int, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """(*, C r², H, W) to (*, C, H r, W r)."""

def pixel_unshuffle(
    input: A, downscale_factor: int, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """(*, C, H r, W r) to (*, C r², H, W): the inverse of pixel_shuffle."""

def pool_output_shape(
    input_shape: Sequence[int], kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0,
    dilation: Numbers = 1, ceil_mode: bool = False, *, layout: Layout = 'NCHW', semantics: Rules = 'torch',
) -> tuple[int, ...]:
    """The shape that a windowed pool (max, min, average, Lp, soft, median, ...) of such an input has.

    The arguments are those of max_pool2d; `layout` sets the number of spatial axes. With E = dilation (k - 1) + 1:

        explicit padding   floor((in + begin + end - E) / stride) + 1
        ceil_mode          ceil((in + begin + end - E) / stride) + 1, less one where the last window would start past
                           the input and its begin padding ((out - 1) stride >= in + begin)
        "valid"            floor((in - E) / stride) + 1
        "same"             ceil(in / stride), padding in all max(0, (out - 1) stride + E - in)

    "caffe" always rounds up and drops such a window only where there is padding; "tensorrt" never drops it (running a
    pool with a window that holds nothing is refused). All in exact integers, so extents may be of any size.

    Raises ArgumentError and ShapeError as the pool itself does.
    """

def pow(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input to the power of other. Integers to integers are exact modulo 2^bits; to a negative power they are 1 / a^|b|
    cut toward zero.
    """

def prelu(
    input: A, weight: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input, below 0 times weight: one number, or one per channel (axis 1).

    Raises ShapeError for a weight of another shape.
    """

def prod(
    input: A, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: A | None = None,
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Product along an axis (torch takes one; several will do); of nothing 1."""

def ps_roi_pool(
    input: A, boxes: DLPack | Sequence[DLPack], output_size: Numbers, spatial_scale: float = 1.0, *,
    out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Position-sensitive mean: bin (i, j) of channel c averages channel (c bins_h + i) bins_w + j of the input, whose
    channels must be a multiple of the bins. As torchvision.ops.ps_roi_pool on the GPU: its CPU code leaves out the
    last row and column of the map. Arguments as in roi_pool; the second corner does not belong to a box.
    """

def ps_roi_pool_backward(
    grad_output: A, input: A, boxes: DLPack | Sequence[DLPack], output_size: Numbers,
    spatial_scale: float = 1.0, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Gradient of ps_roi_pool with respect to its input; boxes get none."""

def reciprocal(
    input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """1 / input."""

def relu(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """max(input, 0); NaN stays."""

def relu6(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """input held within 0 .. 6; NaN stays."""

def remainder(
    input: A, other: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input - floor(input / other) * other: the sign of other, as Python's %."""

def repeat_interleave(
    input: A, repeats: int, dim: int | None = None, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Each element (or slice along dim) `repeats` times in a row; without dim of all elements in a row. Numbers of
    repeats that differ are not supported.
    """

def rms_norm(
    input: A, normalized_shape: SupportsIndex | Sequence[SupportsIndex], weight: A | None = None,
    eps: float | None = None, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """x / sqrt(mean of x² + eps) * weight over the last axes, as torch.nn.functional.rms_norm: see layer_norm.

    eps: by default the distance from 1 to the next float32 (float64 for that type). The result has the weight's type.
    """

def rnn_relu(
    input: A, hx: A | None, params: Sequence[A], has_biases: bool = True, num_layers: int = 1,
    dropout: float = 0.0, train: bool = False, bidirectional: bool = False, batch_first: bool = False, *,
    threads: int | None = None,
) -> tuple[A, A]:
    """max(w_ih x + b_ih + w_hh h + b_hh, 0) step by step, as torch.rnn_relu: the states and the last states."""

def rnn_tanh(
    input: A, hx: A | None, params: Sequence[A], has_biases: bool = True, num_layers: int = 1,
    dropout: float = 0.0, train: bool = False, bidirectional: bool = False, batch_first: bool = False, *,
    threads: int | None = None,
) -> tuple[A, A]:
    """tanh(w_ih x + b_ih + w_hh h + b_hh) step by step, as torch.rnn_tanh: the states and the last states."""

def roi_align(
    input: A, boxes: DLPack | Sequence[DLPack], output_size: Numbers, spatial_scale: float = 1.0,
    sampling_ratio: int = -1, aligned: bool = False, *, mode: Literal['max', 'avg'] = 'avg',
    out: A | None = None, threads: int | None = None, algorithm: str | None = None,
    semantics: Rules = 'torch',
) -> A:
    """Mean (mode="avg") or largest (mode="max") of bilinear samples in each bin of each box, as
    torchvision.ops.roi_align: (R, C, *output_size).

    sampling_ratio  samples per bin and axis; 0 or less: as many as the bin has pixels, rounded up
    aligned         shift coordinates by half a pixel (the correct way, and ONNX's half_pixel); without, boxes are at
                    least 1 x 1
    semantics       only for mode="max": "onnx" takes the largest of the weighted corners of the samples, as ONNX
                    defines it; the others the largest sample
    input, boxes, spatial_scale: see roi_pool. Samples further than 1 outside of the map count as 0.
    """

def roi_align_backward(
    grad_output: A, input: A, boxes: DLPack | Sequence[DLPack], output_size: Numbers,
    spatial_scale: float = 1.0, sampling_ratio: int = -1, aligned: bool = False, *,
    mode: Literal['max', 'avg'] = 'avg', out: A | None = None, threads: int | None = None,
    algorithm: str | None = None, semantics: Rules = 'torch',
) -> A:
    """Gradient of roi_align with respect to its input; boxes get none."""

def roi_pool(
    input: A, boxes: DLPack | Sequence[DLPack], output_size: Numbers, spatial_scale: float = 1.0, *,
    out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """Largest value in each of output_size bins of each box: (R, C, *output_size), as torchvision.ops.roi_pool.

    input          (N, C, H, W), float
    boxes          (R, 5) of (image, x1, y1, x2, y2), or a list of (R_i, 4), one per image
    spatial_scale  from box coordinates to pixels; scaled corners are rounded, halves away from zero

    Both corners belong to a box; it is at least one pixel. Empty bins give 0. NaN propagates. Raises InputError for a
    box of an image that does not exist or with coordinates that are not finite.
    """

def roi_pool_backward(
    grad_output: A, input: A, boxes: DLPack | Sequence[DLPack], output_size: Numbers,
    spatial_scale: float = 1.0, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Gradient of roi_pool with respect to its input; boxes get none."""

def roll(
    input: A, shifts: Any, dims: Any = None, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Elements moved on by `shifts` along `dims`, those that leave come in again at the begin; without dims along all
    elements in a row.
    """

def round(
    input: A, *, decimals: int = 0, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Rounded to the nearest whole number, halves to the even one; integers stay.

    decimals  of floats: as many places behind the point (negative: before it) are kept, by a product with the power of
              ten and a division, each rounded to input's type. Raises DTypeError for integers.
    """

def rsqrt(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """1 / sqrt(input)."""

def scaled_dot_product_attention(
    query: A, key: A, value: A, attn_mask: A | None = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """softmax(query @ key' * scale + mask) @ value, as torch.nn.functional.scaled_dot_product_attention.

    query, key, value  (..., L, E), (..., S, E) and (..., S, Ev) of one type: float64, float32, float16 or bfloat16; the
                       axes before the last two broadcast
    attn_mask          broadcasts to (..., L, S): bool (True: attended), or of the query's type and added to the scores
    dropout_p          0: there is no dropout here
    is_causal          query i attends keys 0 to i; without attn_mask
    scale              default 1 / sqrt(E)
    enable_gqa         key and value have fewer heads (axis -3), each shared by a run of the query's
    out                an array for the result
    threads            threads to use; None: as many as there are cores

    Views with permuted axes are read where they lie. Scores and sums are in float32 (float64 for float64); a query that
    attends no key gives zeros. Extra memory is a band of scores per thread, never all of them.
    Raises ShapeError, DTypeError and ArgumentError where the arguments do not fit, and for a dropout_p other than 0.
    """

def scatter(
    input: A, dim: int, index: DLPack, src: Any, *, reduce: Literal['add', 'multiply'] | None = None,
    invalid: Invalid = 'raise', out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """A copy of `input` with y[index[i, j, k], j, k] = src[i, j, k] for dim 0, and so on; `src` may be a number.

    `index` has as many axes as `input` and is not larger than `src`, nor than `input` on the other axes. Of equal
    indices the last in row-major order stays, always (PyTorch does not say). `reduce` adds to, or multiplies, what is
    there instead: float32 and float64 sums in that order, 16-bit floats rounded at every step. `out` may be `input`
    itself, which is then changed in place; after an error about an index it may hold some of the updates.
    """

def scatter_add(
    input: A, dim: int, index: DLPack, src: DLPack, *, invalid: Invalid = 'raise', out: A | None = None,
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """A copy of `input` to which every element of `src` is added at the place that its index names: see `scatter`."""

def scatter_reduce(
    input: A, dim: int, index: DLPack, src: DLPack, reduce: Literal['sum', 'prod', 'mean', 'amax', 'amin'], *,
    include_self: bool = True, invalid: Invalid = 'raise', out: A | None = None, threads: int | None = None,
) -> A:
    """A copy of `input` in which each place that indices name has the sum (product, mean, largest, smallest) of its
    updates and, with `include_self`, of what was there: see `scatter`. NaN wins over every number in amax and amin.
    Integer means are rounded toward minus infinity, as PyTorch does.
    """

def selu(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """1.0507 * elu with alpha 1.6733."""

def sigmoid(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """1 / (1 + exp(-input)); integers give float32."""

def sign(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """-1, 0 or 1 in input's type; NaN stays."""

def silu(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """input * sigmoid(input)."""

def sin(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Sine of radians."""

def sinh(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Hyperbolic sine."""

def soft_pool(
    input: A, kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0,
    dilation: Numbers = 1, ceil_mode: bool = False, *, out: A | None = None, layout: Layout = 'NCHW',
    threads: int | None = None, algorithm: str | None = None, semantics: Rules = 'torch',
) -> A:
    """sum x exp(x) / sum exp(x) of each window (Stergiou et al., arXiv 2101.00440); never overflows. Float types.

    Arguments as in max_pool2d; `layout` also sets the number of spatial axes ("NCL" 1, "NCHW" 2, "NCDHW" 3).
    """

def soft_pool_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of soft_pool with respect to its input: grad_output, then the arguments of soft_pool."""

def softmax(
    input: A, dim: SupportsIndex | None = None, *, dtype: Any = None, out: A | None = None,
    threads: int | None = None, algorithm: str | None = None,
) -> A:
    """exp(x) / sum of exp(x) along `dim`, without overflow, as torch.nn.functional.softmax.

    dim    by default 0 for inputs of 0, 1 and 3 axes, else 1, as PyTorch's (deprecated) choice
    dtype  a NumPy float type that the input is converted to first (also integers)
    out    may be the input where dtype is None

    A line with NaN or +infinity in it, or of nothing but -infinity, gives NaN.
    """

def softplus(
    input: A, beta: float = 1.0, threshold: float = 20.0, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """log(1 + exp(beta * input)) / beta; input itself where beta * input is above threshold."""

def softshrink(
    input: A, lambd: float = 0.5, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """input moved toward 0 by lambd, and 0 in between; NaN stays."""

def softsign(
    input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input / (1 + |input|)."""

def sort(
    input: A, dim: int = -1, descending: bool = False, *, stable: bool | None = False,
    out: tuple[A, A] | None = None, threads: int | None = None, algorithm: str | None = None,
) -> tuple[A, A]:
    """The elements along `dim` in order, and the places (int64) they came from.

    Equal elements keep their order whatever `stable` says; -0 and +0 are equal; NaN is greater than any number.
    """

def spatial_pyramid_pool(
    input: A, levels: Sequence[int] = (1, 2, 4), mode: Literal['max', 'avg'] = 'max', *, out: A | None = None,
    layout: Layout = 'NCHW', threads: int | None = None, algorithm: str | None = None,
    semantics: Rules = 'torch', nan: NanRule | None = None,
) -> A:
    """A vector of fixed length for a map of any size (He et al., arXiv 1406.4729): (N, C, H, W) gives
    (N, C sum(level^2)).

    levels  bins per axis of each level; each level is an adaptive pool to level x level bins (mode "max" or "avg"),
            so bins of maps smaller than that overlap
    The levels follow one another; within a level channels come first, then bins row by row: what flattening each
    (N, C, level, level) gives, for every `layout` alike. Other arguments as in max_pool2d, spatial axes by `layout`.
    """

def spatial_pyramid_pool_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of spatial_pyramid_pool with respect to its input: grad_output, then the arguments of spatial_pyramid_pool."""

def split(
    tensor: A, split_size_or_sections: Any, dim: int = 0, *, threads: int | None = None,
    algorithm: str | None = None,
) -> tuple[A, ...]:
    """Consecutive parts along an axis: of so many each, the last perhaps of fewer, or of the given numbers."""

def sqrt(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Square root; NaN below 0."""

def square(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """input * input; integers wrap around."""

def stack(
    tensors: Sequence[A], dim: int = 0, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Arrays of one type and shape side by side along a new axis."""

def std(
    input: A, dim: Any = None, *, correction: float = 1, keepdim: bool = False, out: A | None = None,
    threads: int | None = None, accumulate: Accumulate | None = None,
) -> A:
    """Square root of `var`."""

def stochastic_depth(
    input: A, p: float, mode: Literal['batch', 'row'], training: bool = True, *,
    seed: SupportsIndex | None = None, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """The whole batch, or each of its rows, zero with probability p, else times 1 / (1 - p), as
    torchvision.ops.stochastic_depth. Other arguments: see dropout.
    """

@overload
def stochastic_pool(
    input: A, kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0,
    dilation: Numbers = 1, ceil_mode: bool = False, return_indices: Literal[False] = False, *, seed: int = 0,
    training: bool = True, out: A | None = None, layout: Layout = 'NCHW', threads: int | None = None,
    algorithm: str | None = None, semantics: Rules = 'torch',
) -> A:
    """An element of each window, drawn with probability max(x, 0) / sum max(x, 0) (Zeiler and Fergus, arXiv
    1301.3557); with training=False the mean under these probabilities. Where nothing is positive all elements are
    equally likely.

    The draws depend on `seed` (0 to 2^64 - 1) and the output's position alone (Philox-4x32-10): the same bits for any
    number of threads, on every machine. Float types; other arguments as in max_pool2d, spatial axes by `layout`.
    """
@overload
def stochastic_pool(
    input: A, kernel_size: Numbers, stride: Numbers | None = None, padding: Padding = 0,
    dilation: Numbers = 1, ceil_mode: bool = False, return_indices: bool = False, *, seed: int = 0,
    training: bool = True, out: A | tuple[A, A] | None = None, layout: Layout = 'NCHW',
    threads: int | None = None, algorithm: str | None = None, semantics: Rules = 'torch',
) -> Any:
    """An element of each window, drawn with probability max(x, 0) / sum max(x, 0) (Zeiler and Fergus, arXiv
    1301.3557); with training=False the mean under these probabilities. Where nothing is positive all elements are
    equally likely.

    The draws depend on `seed` (0 to 2^64 - 1) and the output's position alone (Philox-4x32-10): the same bits for any
    number of threads, on every machine. Float types; other arguments as in max_pool2d, spatial axes by `layout`.
    """

def stochastic_pool_backward(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
    """Gradient of stochastic_pool with respect to its input: grad_output, then the arguments of stochastic_pool."""

def sub(
    input: A, other: Any, *, alpha: float = 1, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """input - alpha * other."""

def sum(
    input: A, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: A | None = None,
    threads: int | None = None, algorithm: str | None = None, accumulate: Accumulate | None = None,
) -> A:
    """Sum along axes; of nothing 0."""

def take(
    input: A, index: DLPack, *, invalid: Invalid = 'raise', out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """The elements of `input` by their numbers in row-major order; the result has the shape of `index`."""

def take_along_dim(
    input: A, indices: DLPack, dim: int | None = None, *, invalid: Invalid = 'raise', out: A | None = None,
    threads: int | None = None,
) -> A:
    """As `gather`, but the other axes of both broadcast, and without `dim` both are flattened first."""

def tan(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Tangent of radians."""

def tanh(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Hyperbolic tangent; integers give float32."""

def tanhshrink(
    input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input - tanh(input)."""

def threshold(
    input: A, threshold: float, value: float, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """value where input is at most threshold; NaN stays."""

def tile(
    input: A, dims: Sequence[int], *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """The whole repeated along each axis; the shorter of dims and the axes gets ones in front."""

def to(
    input: A, dtype: Any, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """input in another element type: "float16", np.int8, "bfloat16", ... The rules are those of ops/elementwise/cast:
    rounding to nearest even; floats to integers cut toward zero, with what lies outside of 32 and 64 bits held at the
    nearest end and NaN 0, and 8 and 16 bits the low bits of an int32, 0 beyond it; integers wrap around; bool is
    whether it is not 0.
    """

def topk(
    input: A, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *,
    out: tuple[A, A] | None = None, threads: int | None = None, algorithm: str | None = None,
) -> tuple[A, A]:
    """The k largest (or smallest) elements along `dim` and their places (int64), best first.

    Of equal elements the one with the lower place comes first, always; -0 and +0 are equal. NaN is greater than any
    number. Results come in order whatever `sorted` says. k may be 0 and at most the extent.

    Raises ArgumentError, DTypeError.
    """

def transpose(
    input: A, dim0: int, dim1: int, *, out: A | None = None, threads: int | None = None,
    algorithm: str | None = None,
) -> A:
    """Two axes exchanged."""

def trunc(input: A, *, out: A | None = None, threads: int | None = None, algorithm: str | None = None) -> A:
    """Rounded toward zero; integers stay."""

def unfold(
    input: A, kernel_size: Numbers, dilation: Numbers = 1, padding: Numbers = 0, stride: Numbers = 1, *,
    out: A | None = None, threads: int | None = None, algorithm: str | None = None,
) -> A:
    """(N, C, H, W) or (C, H, W) to (N, C kh kw, windows) or without N: what each tap of a sliding window reads."""

def var(
    input: A, dim: Any = None, *, correction: float = 1, keepdim: bool = False, out: A | None = None,
    threads: int | None = None, accumulate: Accumulate | None = None,
) -> A:
    """Variance along axes: the squared distances from the mean, added and divided by their number less `correction`
    (not below 0; NaN for one element). Takes as much memory as the input for the time of the call (with
    accumulate="float64" as an input of float64).
    """

def where(condition: DLPack, input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """input where the condition (bool) holds, other elsewhere; all three broadcast.

    Numbers are taken for either of the two, in the other's type. Unlike PyTorch's, types are not promoted: DTypeError.
    The result is of the kind (NumPy, torch, ...) of `condition`. In a `fused` function types are promoted.
    """
