"""Every operator, one line per file: adding an operator is its file and its line here."""

from __future__ import annotations

from cenote.ops.activation import ACTIVATIONS
from cenote.ops.adaptive_pool import AdaptiveAveragePool, AdaptiveMaxPool
from cenote.ops.attention import Attention
from cenote.ops.average_pool import AveragePool
from cenote.ops.base import Decoder, Op
from cenote.ops.batch_normalization import BatchNormalization
from cenote.ops.binary import BINARY
from cenote.ops.blur_pool import BlurPool
from cenote.ops.cast import CASTS
from cenote.ops.channel_gather import ChannelGather
from cenote.ops.compare import COMPARISONS
from cenote.ops.concat import Concat
from cenote.ops.conv import Conv
from cenote.ops.conv_transpose import ConvTranspose
from cenote.ops.cumulative import CUMULATIVES
from cenote.ops.data_dependent import SELECTIONS
from cenote.ops.deform_conv import DEFORMABLE
from cenote.ops.depth_space import REARRANGEMENTS
from cenote.ops.einsum import Einsum
from cenote.ops.fractional_pool import FractionalMaxPool
from cenote.ops.gather import GATHERS
from cenote.ops.gemm import Gemm, MatMul
from cenote.ops.global_pool import GlobalAveragePool, GlobalMaxPool
from cenote.ops.grid_sample import GRIDS
from cenote.ops.instance_normalization import GroupNormalization, InstanceNormalization
from cenote.ops.layer_normalization import NORMALIZATIONS
from cenote.ops.losses import LOSSES
from cenote.ops.lp_pool import GlobalLpPool, LpPool
from cenote.ops.lrn import LRN
from cenote.ops.max_pool import MaxPool, MinPool
from cenote.ops.max_unpool import MaxUnpool
from cenote.ops.median_pool import MedianPool
from cenote.ops.mod import Mod
from cenote.ops.non_max_suppression import NonMaxSuppression
from cenote.ops.pad import Pad
from cenote.ops.pyramid_pool import SpatialPyramidPool
from cenote.ops.quantize import QUANTIZERS
from cenote.ops.quantized_linear import QUANTIZED_PRODUCTS
from cenote.ops.recurrent import RECURRENT
from cenote.ops.reduce import REDUCTIONS
from cenote.ops.reorder import Reorder
from cenote.ops.reshape import RESHAPES
from cenote.ops.resize import Resize
from cenote.ops.roi_align import RoiAlign
from cenote.ops.roi_pool import MaxRoiPool, PsRoiPool
from cenote.ops.rotary_embedding import RotaryEmbedding
from cenote.ops.scatter import SCATTERS
from cenote.ops.sequence_mixers import MIXERS
from cenote.ops.shape import SHAPES
from cenote.ops.slice import Slice
from cenote.ops.softmax import LogSoftmax, Softmax
from cenote.ops.spectral import SPECTRAL
from cenote.ops.split import Split
from cenote.ops.topk import RANKINGS
from cenote.ops.transpose import Transpose
from cenote.ops.unary import UNARY
from cenote.ops.weighted_pool import GemPool, SoftPool, StochasticPool
from cenote.ops.where import CHOICES

OPERATORS: tuple[type[Op], ...] = (
    *ACTIVATIONS,
    *BINARY,
    *CASTS,
    *CHOICES,
    *COMPARISONS,
    *CUMULATIVES,
    *DEFORMABLE,
    *GATHERS,
    *GRIDS,
    *LOSSES,
    *MIXERS,
    *NORMALIZATIONS,
    *QUANTIZED_PRODUCTS,
    *QUANTIZERS,
    *RANKINGS,
    *REARRANGEMENTS,
    *RECURRENT,
    *REDUCTIONS,
    *RESHAPES,
    *SCATTERS,
    *SELECTIONS,
    *SHAPES,
    *SPECTRAL,
    *UNARY,
    AdaptiveAveragePool,
    AdaptiveMaxPool,
    Attention,
    AveragePool,
    BatchNormalization,
    BlurPool,
    ChannelGather,
    Concat,
    Conv,
    ConvTranspose,
    Einsum,
    FractionalMaxPool,
    GemPool,
    Gemm,
    GlobalAveragePool,
    GlobalLpPool,
    GlobalMaxPool,
    GroupNormalization,
    InstanceNormalization,
    LRN,
    LogSoftmax,
    LpPool,
    MatMul,
    MaxPool,
    MaxRoiPool,
    MaxUnpool,
    MedianPool,
    MinPool,
    Mod,
    NonMaxSuppression,
    Pad,
    PsRoiPool,
    Reorder,
    Resize,
    RoiAlign,
    RotaryEmbedding,
    Slice,
    SoftPool,
    Softmax,
    SpatialPyramidPool,
    Split,
    StochasticPool,
    Transpose,
)

DECODERS: dict[str, Decoder] = {key: decoder for op in OPERATORS for key, decoder in op.from_onnx.items()}
