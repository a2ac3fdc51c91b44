"""The tables of TensorFlow Lite's file format, as slots and kinds (its public schema.fbs, version 3)."""

from __future__ import annotations

from typing import Any

from cenote.frontends.tflite.flatbuffer import Fields

IDENTIFIER = b"TFL3"


def _fields(text: str) -> Fields:
    """Parse fields "name kind [default]", in the order of their slots; "-" leaves a slot out."""
    fields: dict[str, tuple[int, str, Any]] = {}
    for slot, item in enumerate(text.split(",")):
        parts = item.split()
        if parts != ["-"]:
            is_number = not parts[1].endswith("[]") and parts[1] not in ("text", "table", "tables")
            fields[parts[0]] = (slot, parts[1], int(parts[2]) if len(parts) > 2 else 0 if is_number else None)
    return fields


MODEL = _fields(
    "version uint32, operator_codes tables, subgraphs tables, description text, buffers tables, "
    "metadata_buffer int32[], metadata tables, signature_defs tables"
)
OPERATOR_CODE = _fields("deprecated_builtin_code int8, custom_code text, version int32 1, builtin_code int32")
SUBGRAPH = _fields("tensors tables, inputs int32[], outputs int32[], operators tables, name text")
TENSOR = _fields(
    "shape int32[], type int8, buffer uint32, name text, quantization table, is_variable bool, sparsity table, "
    "shape_signature int32[], has_rank bool"
)
BUFFER = _fields("data uint8[], offset uint64, size uint64")
QUANTIZATION = _fields(
    "min float32[], max float32[], scale float32[], zero_point int64[], details_type uint8, details table, "
    "quantized_dimension int32"
)
SPARSITY = _fields("traversal_order int32[], block_map int32[], dim_metadata tables")
DIMENSION_METADATA = _fields(
    "format int8, dense_size int32, array_segments_type uint8, array_segments table, array_indices_type uint8, "
    "array_indices table"
)
INT32_VECTOR = _fields("values int32[]")
UINT16_VECTOR = _fields("values uint16[]")
UINT8_VECTOR = _fields("values uint8[]")
OPERATOR = _fields(
    "opcode_index uint32, inputs int32[], outputs int32[], builtin_options_type uint8, builtin_options table, "
    "custom_options uint8[]"
)
SIGNATURE = _fields("inputs tables, outputs tables, signature_key text, -, subgraph_index uint32")
TENSOR_MAP = _fields("name text, tensor_index uint32")

TYPES = {
    0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16", 9: "int8", 10: "float64",
    12: "uint64", 15: "uint32", 16: "uint16", 18: "bfloat16",
}  # fmt: skip
OTHER_TYPES = {5: "string", 8: "complex64", 11: "complex128", 13: "resource", 14: "variant", 17: "int4"}
ACTIVATIONS = {0: "", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH", 5: "SIGN_BIT"}
PADDINGS = {0: "SAME", 1: "VALID"}

_OPTIONS = """
CONV_2D: padding int8, stride_w int32, stride_h int32, activation int8, dilation_w int32 1, dilation_h int32 1
DEPTHWISE_CONV_2D: padding int8, stride_w int32, stride_h int32, depth_multiplier int32, activation int8,
  dilation_w int32 1, dilation_h int32 1
CONV_3D CONV_3D_TRANSPOSE: padding int8, stride_d int32, stride_w int32, stride_h int32, activation int8,
  dilation_d int32 1, dilation_w int32 1, dilation_h int32 1
TRANSPOSE_CONV: padding int8, stride_w int32, stride_h int32, activation int8
AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D: padding int8, stride_w int32, stride_h int32, filter_width int32,
  filter_height int32, activation int8
FULLY_CONNECTED: activation int8, weights_format int8, keep_num_dims bool, asymmetric_quantize_inputs bool
SOFTMAX: beta float32
CONCATENATION: axis int32, activation int8
ADD SUB MUL DIV L2_NORMALIZATION: activation int8
LOCAL_RESPONSE_NORMALIZATION: radius int32, bias float32, alpha float32, beta float32
RESHAPE: new_shape int32[]
SQUEEZE: squeeze_dims int32[]
RESIZE_BILINEAR: -, -, align_corners bool, half_pixel_centers bool
RESIZE_NEAREST_NEIGHBOR: align_corners bool, half_pixel_centers bool
PACK: values_count int32, axis int32
UNPACK: num int32, axis int32
SPLIT SPLIT_V: num_splits int32
GATHER: axis int32, batch_dims int32
LEAKY_RELU: alpha float32
MIRROR_PAD: mode int8
CAST: in_data_type int8, out_data_type int8
ARG_MAX ARG_MIN: output_type int8
SPACE_TO_DEPTH DEPTH_TO_SPACE: block_size int32
STRIDED_SLICE: begin_mask int32, end_mask int32, ellipsis_mask int32, new_axis_mask int32, shrink_axis_mask int32,
  offset bool
BATCH_MATMUL: adj_x bool, adj_y bool
GELU: approximate bool
WHILE: cond_subgraph_index int32, body_subgraph_index int32
UNIDIRECTIONAL_SEQUENCE_LSTM: activation int8, cell_clip float32, proj_clip float32, time_major bool,
  asymmetric_quantize_inputs bool
CUMSUM: exclusive bool, reverse bool
SHAPE: out_type int8
ONE_HOT: axis int32
MEAN SUM REDUCE_MAX REDUCE_MIN REDUCE_PROD REDUCE_ANY REDUCE_ALL: keep_dims bool
"""
OPTIONS = {
    name: _fields(fields)
    for names, fields in (line.split(":") for line in _OPTIONS.replace("\n  ", " ").strip().splitlines())
    for name in names.split()
}

_NAMES = """
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP
    FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
    LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX
    SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD
    UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE
    UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX
    DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER
    GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL
    LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND
    LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE
    RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N
    GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF
    WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL
    PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
    HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE
    READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL
    GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM
    ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT
"""
NAMES = dict(enumerate(_NAMES.split()))
