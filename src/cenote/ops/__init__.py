"""Every operator, one line per file: adding an operator is its file and its line here.

The line says which ONNX operators the file decodes (with the domain before it when it is not the standard one), so that
loading a model imports the files of the operators it uses and no others. A test holds the table to what the files say.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache

from cenote.ops.base import Check, Decoder, Op

_FILES: dict[str, str] = {
    "activation": (
        "Celu Clip Elu Gelu HardSigmoid HardSwish LeakyRelu Mish Relu Selu Shrink Sigmoid Softplus "
        "Softsign Swish Tanh ThresholdedRelu"
    ),
    "pool.adaptive": "",
    "attention": "Attention",
    "pool.average": "AveragePool",
    "batch_normalization": "BatchNormalization",
    "binary": "Add Div Max Mean Min Mul PRelu Pow Sub Sum",
    "pool.blur": "",
    "cast": "BitCast Cast CastLike",
    "channel_gather": "",
    "compare": (
        "And BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Equal Greater GreaterOrEqual IsInf "
        "IsNaN Less LessOrEqual Not Or Xor"
    ),
    "concat": "Concat",
    "conv": "Conv",
    "conv_transpose": "ConvTranspose",
    "cumulative": "CumProd CumSum",
    "data_dependent": "Compress NonZero OneHot ReverseSequence Unique",
    "deform_conv": "Col2Im DeformConv",
    "depth_space": "CenterCropPad DepthToSpace SpaceToDepth",
    "einsum": "Einsum",
    "pool.fractional": "",
    "gated_conv": "",
    "gather": "Gather GatherElements GatherND",
    "gemm": "Gemm MatMul",
    "pool.whole_map": "GlobalAveragePool GlobalMaxPool",
    "grid_sample": "AffineGrid GridSample",
    "instance_normalization": "GroupNormalization InstanceNormalization",
    "layer_normalization": "LayerNormalization LpNormalization MeanVarianceNormalization RMSNormalization",
    "losses": "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
    "pool.lp": "GlobalLpPool LpPool",
    "lrn": "LRN",
    "pool.max": "MaxPool",
    "pool.unpool": "MaxUnpool",
    "pool.median": "",
    "mod": "Mod",
    "non_max_suppression": "NonMaxSuppression",
    "pad": "Pad",
    "pool.gradient": "",
    "pool.pyramid": "",
    "quantize": "DequantizeLinear DynamicQuantizeLinear QuantizeLinear",
    "quantized_linear": "ConvInteger MatMulInteger QLinearConv QLinearMatMul",
    "recurrent": "GRU LSTM RNN",
    "reduce": (
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
        "ReduceSum ReduceSumSquare"
    ),
    "reorder": "",
    "reshape": "Dropout Expand Flatten Identity Reshape Squeeze Unsqueeze",
    "resize": "Resize Upsample",
    "roi.align": "RoiAlign",
    "roi.pool": "MaxRoiPool",
    "rotary_embedding": "RotaryEmbedding",
    "scatter": "Scatter ScatterElements ScatterND TensorScatter",
    "sequence_mixers": "CausalConvWithState LinearAttention SwiGLU",
    "shape": "ConstantOfShape EyeLike Range Shape Size",
    "slice": "Slice",
    "softmax": "LogSoftmax Softmax",
    "pool.sparse_gradient": "",
    "spectral": "BlackmanWindow DFT Det HammingWindow HannWindow MelWeightMatrix STFT",
    "split": "Split",
    "topk": "ArgMax ArgMin Hardmax TopK",
    "transpose": "Transpose",
    "unary": (
        "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Round Sign "
        "Sin Sinh Sqrt Tan"
    ),
    "pool.weighted": "",
    "where": "Tile Trilu Where",
}


class _Decoders(Mapping[str, Decoder]):
    """Decoders by ONNX name; a file is imported when one of its decoders is asked for."""

    def __init__(self) -> None:
        self._file_of = {name: file for file, names in _FILES.items() for name in names.split()}

    def __getitem__(self, key: str) -> Decoder:
        for op in operators_in(self._file_of[key]):
            if key in op.from_onnx:
                return op.from_onnx[key]
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._file_of)

    def __len__(self) -> int:
        return len(self._file_of)


DECODERS: Mapping[str, Decoder] = _Decoders()


@cache
def operators_in(file: str) -> tuple[type[Op], ...]:
    """The operators that a file of this folder defines (those with a name: bases have none; a Check is in no graph)."""
    module = importlib.import_module(f"{__name__}.{file}")
    return tuple(
        thing
        for thing in vars(module).values()
        if isinstance(thing, type)
        and issubclass(thing, Op)
        and not issubclass(thing, Check)
        and thing.__module__ == module.__name__
        and thing.__dict__.get("name")
    )


@cache
def operators() -> tuple[type[Op], ...]:
    """All operators; imports every file."""
    return tuple(op for file in _FILES for op in operators_in(file))
