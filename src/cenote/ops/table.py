"""Every operator, one line per file (folder and file): adding an operator is its file and its line here.

The line says which ONNX operators the file decodes (with the domain before it when it is not the standard one), so that
loading a model imports the files of the operators it uses and no others. A test holds the table to what the files say.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache

from cenote.core.locks import importing
from cenote.ops.base import Check, Decoder, Op

_FILES: dict[str, str] = {
    "reorder": "",
    "user_function": "",
    "conv.banded_convs": "",
    "conv.bfloat_conv": "",
    "conv.col2im": "Col2Im",
    "conv.conv": "Conv",
    "conv.conv_transpose": "ConvTranspose",
    "conv.deform_conv": "DeformConv",
    "conv.gated_conv": "",
    "elementwise.activation": (
        "Celu Clip Elu Gelu HardSigmoid HardSwish LeakyRelu Mish Relu Selu Shrink Sigmoid Softplus "
        "Softsign Swish Tanh ThresholdedRelu"
    ),
    "elementwise.binary": "Add Div Max Mean Min Mod Mul PRelu Pow Sub Sum",
    "elementwise.cast": "BitCast Cast CastLike",
    "elementwise.chain": "",
    "elementwise.compare": (
        "And BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Equal Greater GreaterOrEqual IsInf "
        "IsNaN Less LessOrEqual Not Or Xor"
    ),
    "elementwise.formula": "",
    "elementwise.unary": (
        "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Round "
        "Sign Sin Sinh Sqrt Tan"
    ),
    "elementwise.where": "Tile Trilu Where",
    "learning.features": "ai.onnx.ml.ArrayFeatureExtractor ai.onnx.ml.Binarizer TfIdfVectorizer",
    "learning.optimizers": (
        "ai.onnx.preview.training.Adagrad ai.onnx.preview.training.Adam ai.onnx.preview.training.Momentum"
    ),
    "linear.einsum": "Einsum",
    "linear.gemm": "Gemm",
    "linear.matmul": "MatMul",
    "linear.spectral": "BlackmanWindow DFT Det HammingWindow HannWindow MelWeightMatrix STFT",
    "linear.stored_linear": "",
    "movement.channel_gather": "",
    "movement.data_dependent": "Compress NonZero OneHot ReverseSequence Unique",
    "movement.depth_space": "CenterCropPad DepthToSpace SpaceToDepth",
    "movement.embedding_bag": "",
    "movement.grid_sample": "AffineGrid GridSample",
    "movement.indexing": "Gather GatherElements GatherND",
    "movement.pad": "Pad",
    "movement.parts": "Concat Slice Split",
    "movement.reshape": "Expand Flatten Identity Reshape Squeeze Unsqueeze",
    "movement.resize": "Resize Upsample cenote.Resize",
    "movement.scatter": "Scatter ScatterElements ScatterND TensorScatter",
    "movement.shape": "ConstantOfShape EyeLike Range Shape Size",
    "movement.take": "",
    "movement.transpose": "Transpose cenote.TransposeLast",
    "movement.unfold": "",
    "normalization.batch_normalization": "BatchNormalization",
    "normalization.instance_normalization": "GroupNormalization InstanceNormalization",
    "normalization.layer_normalization": (
        "LayerNormalization LpNormalization MeanVarianceNormalization RMSNormalization"
    ),
    "normalization.lrn": "LRN",
    "normalization.softmax": "LogSoftmax Softmax",
    "pool.adaptive": "",
    "pool.average": "AveragePool",
    "pool.blur": "",
    "pool.fractional": "",
    "pool.gradient": "",
    "pool.lp": "GlobalLpPool LpPool",
    "pool.window": "MaxPool",
    "pool.median": "",
    "pool.pyramid": "",
    "pool.sparse_gradient": "",
    "pool.unpool": "MaxUnpool",
    "pool.weighted": "",
    "pool.whole_map": "GlobalAveragePool GlobalMaxPool",
    "quantization.byte_table": "",
    "quantization.quantize": "DequantizeLinear DynamicQuantizeLinear QuantizeLinear",
    "quantization.quantized_linear": "ConvInteger QLinearConv",
    "quantization.quantized_pools": "",
    "quantization.quantized_residual": "",
    "quantization.quantized_softmax": "",
    "quantization.quantized_transposed": "",
    "quantization.quantized_products": "MatMulInteger QLinearMatMul",
    "quantization.quantized_recurrent": "com.microsoft.DynamicQuantizeLSTM",
    "random.distributions": (
        "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
    ),
    "random.dropout": "Dropout",
    "reduction.cumulative": "CumProd CumSum",
    "reduction.losses": "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
    "reduction.non_max_suppression": "NonMaxSuppression",
    "reduction.reduce": (
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
        "ReduceSum ReduceSumSquare"
    ),
    "reduction.topk": "ArgMax ArgMin Hardmax TopK",
    "roi.align": "RoiAlign",
    "roi.pool": "MaxRoiPool",
    "sequence.attention": "Attention",
    "sequence.containers": (
        "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct "
        "SequenceEmpty SequenceErase SequenceInsert SequenceLength SplitToSequence"
    ),
    "sequence.recurrent": "GRU LSTM RNN",
    "sequence.scaled_dot_product": "",
    "sequence.sequence_mixers": "CausalConvWithState LinearAttention RotaryEmbedding SwiGLU",
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
    with importing():
        module = importlib.import_module(f"cenote.ops.{file}")
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
