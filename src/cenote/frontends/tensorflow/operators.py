"""Decoders of TensorFlow's operations: one table. Operations on pictures and windows are in `operators_pictures`,
those that move and slice in `operators_shape`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.frontends import pieces
from cenote.frontends import tensorflow_common as common
from cenote.frontends.tensorflow.dropout import DROPOUT
from cenote.frontends.tensorflow.frames import FRAMES
from cenote.frontends.tensorflow.nodes import Decode, NodeSite, Value, VariableHandle
from cenote.frontends.tensorflow.operators_branches import BRANCHES
from cenote.frontends.tensorflow.operators_lists import LISTS
from cenote.frontends.tensorflow.operators_pictures import PICTURES
from cenote.frontends.tensorflow.operators_shape import SHAPES
from cenote.frontends.tensorflow.tensors import STRING
from cenote.ops.movement.reshape import AxesFrom

# Names of placeholders that switch training on; here it is always off.
_TRAINING = common.words("training is_training phase_train keras_learning_phase is_train train_phase train")


def _first(site: NodeSite) -> Value:
    if not site.inputs:
        raise ModelError("it has no input")
    return site.inputs[0]


def _placeholder(site: NodeSite) -> str:
    if "dtype" in site.attributes and site.attributes["dtype"].type == STRING:
        raise UnsupportedError(
            "strings are not supported as inputs; name the tensors behind it that you would feed: inputs=[…], as "
            "'DecodeJpeg:0'"
        )
    dtype, shape = site.dtype("dtype"), site.shape("shape")
    if dtype == np.bool_ and site.name.split("/")[-1].split(":")[0] in _TRAINING:
        return site.builder.constant(np.array(False), site.name)
    return site.builder.input(site.importer.input_names.get(site.name, site.name), dtype, shape)


def _placeholder_with_default(site: NodeSite) -> str:
    """Decode a placeholder: a single number or flag (dropout's rate, whether to train) keeps its default; a tensor
    becomes an input."""
    known = site.known(0)
    if known is not None and known.ndim == 0:
        return site.x(0)
    return site.builder.input(site.name, site.dtype("dtype"), site.shape("shape"))


def _iterator(site: NodeSite) -> list[str]:
    """Decode an iterator: the values of its dataset become inputs."""
    types, shapes = site.dtypes("output_types"), site.shapes("output_shapes")
    declarations = zip(site.names(len(types)), types, shapes, strict=True)
    return [site.builder.input(*one) for one in declarations]


def _read(site: NodeSite) -> Value:
    value = _first(site)
    return site.importer.read(value) if isinstance(value, VariableHandle) else value


def _while(site: NodeSite) -> Sequence[Value]:
    """Decode a loop whose condition stays a constant: it is unrolled."""
    call, names = site.importer.call, {key: site.attributes[key].func.name for key in ("cond", "body")}
    start: Sequence[Value] = site.inputs
    return pieces.unrolled(
        site.builder,
        start,
        lambda state: call(site, names["cond"], state)[0],
        lambda state: call(site, names["body"], state),
    )


def _log1p(site: NodeSite) -> str:
    one = site.builder.constant(np.array(1, site.dtype("T")))
    return site.builder.add("Log", site.builder.add("Add", site.x(0), one), name=site.name)


def _one_less(op: str, first: bool) -> Decode:
    """Return a decoder of 1 - op(x), or op(x) - 1."""

    def decode(site: NodeSite) -> str:
        one, y = site.builder.constant(np.array(1, site.dtype("T"))), site.builder.add(op, site.x(0))
        return site.builder.add("Sub", *((one, y) if first else (y, one)), name=site.name)

    return decode


def _divide_no_nan(site: NodeSite) -> str:
    """Decode x / y, with 0 where y is 0."""
    x, y = site.values()
    zero = site.builder.constant(np.array(0, site.dtype("T")))
    is_zero = site.builder.add("Equal", y, zero)
    return site.builder.add("Where", is_zero, zero, site.builder.add("Div", x, y), name=site.name)


def _matmul(site: NodeSite) -> str:
    a, b = site.values()[:2]
    turned = {"transA": int(site.flag("transpose_a")), "transB": int(site.flag("transpose_b"))}
    return site.builder.add("Gemm", a, b, name=site.name, **turned)


def _batch_matmul(site: NodeSite) -> str:
    """Decode a product. The last two axes of either factor may be exchanged: those of a constant are exchanged at
    once, others by the letters of Einsum."""
    factors, letters = [], []
    for index, flag, plainly in ((0, "adj_x", "ij"), (1, "adj_y", "jk")):
        content, turned = site.known(index), site.flag(flag)
        if turned and content is not None and content.ndim >= 2:
            factors.append(site.builder.constant(content.swapaxes(-1, -2)))
            turned = False
        else:
            factors.append(site.x(index))
        letters.append(plainly[::-1] if turned else plainly)
    if letters == ["ij", "jk"]:
        return site.builder.add("MatMul", *factors, name=site.name)
    equation = f"...{letters[0]},...{letters[1]}->...ik"
    return site.builder.add("Einsum", *factors, name=site.name, equation=equation)


def _boolean_reduction(op: str) -> Decode:
    """Return a decoder of All or Any: the minimum or maximum of zeros and ones."""

    def decode(site: NodeSite) -> str:
        axes = site.builder.integers(site.numbers(1, "the axes"))
        numbers = site.builder.cast(site.x(0), np.dtype(np.int32))
        reduced = site.builder.add(op, numbers, axes, keepdims=int(site.flag("keep_dims")))
        return site.builder.cast(reduced, np.dtype(np.bool_), site.name)

    return decode


def _select(site: NodeSite) -> str:
    """Decode Where with a condition of one axis that chooses whole rows."""
    condition, x, y = site.values()[:3]
    (rows,) = site.builder.add_op(AxesFrom(0), (condition, x), ("",))
    return site.builder.add("Where", rows, x, y, name=site.name)


def _gather_variable(site: NodeSite) -> str:
    variable = _first(site)
    if not isinstance(variable, VariableHandle):
        raise ModelError("its input 0 is no variable")
    table, batch_dims = site.importer.read(variable), site.integer("batch_dims", 0)
    return pieces.gathered(site.builder, table, site.x(1), batch_dims, batch_dims, site.name)


OPERATORS: Mapping[str, Decode] = {
    **DROPOUT,
    "Placeholder": _placeholder,
    "PlaceholderWithDefault": _placeholder_with_default,
    "IteratorGetNext": _iterator,
    "Const": lambda site: site.builder.constant(site.tensor("value"), site.name),
    **common.alike(
        "VarHandleOp VariableV2 Variable",
        lambda site: VariableHandle(site.name, site.text("shared_name", "") or site.name),
    ),
    # These pass their input on; a variable of TensorFlow 1 is read here.
    **common.alike(
        "ReadVariableOp Identity StopGradient PreventGradient CheckNumerics Snapshot EnsureShape Assert Print",
        _read,
    ),
    "IdentityN": lambda site: list(site.inputs),
    **common.alike(
        "PartitionedCall StatefulPartitionedCall",
        lambda site: site.importer.call(site, site.attributes["f"].func.name, site.inputs),
    ),
    **BRANCHES,
    **common.alike("While StatelessWhile", _while),
    **common.each(
        "Relu Elu Selu Sigmoid Tanh Softplus Softsign Erf Exp Log Sqrt Neg Abs Sign Floor Ceil Round Rint=Round Sin "
        "Cos Tan Sinh Cosh Asin Acos Atan Asinh Acosh Atanh Reciprocal Inv=Reciprocal ClipByValue=Clip Add AddV2=Add "
        "AddN=Sum Sub Mul Div RealDiv=Div TruncateDiv=Div FloorMod=Mod Pow Maximum=Max Minimum=Min Equal Greater "
        "GreaterEqual=GreaterOrEqual Less LessEqual=LessOrEqual LogicalNot=Not LogicalAnd=And LogicalOr=Or IsNan=IsNaN "
        "IsInf=IsInf SelectV2=Where",
        common.plain,
    ),
    "Relu6": common.clip(0.0, 6.0),
    "LeakyRelu": common.leaky,
    "NotEqual": common.after("Equal", "Not"),
    "Rsqrt": common.after("Sqrt", "Reciprocal"),
    "Square": common.square,
    "SquaredDifference": common.squared_difference,
    "Log1p": _log1p,
    "Expm1": _one_less("Exp", False),
    "Erfc": _one_less("Erf", True),
    "FloorDiv": common.floor_division,
    "DivNoNan": _divide_no_nan,
    "MatMul": _matmul,
    **common.alike("BatchMatMul BatchMatMulV2 BatchMatMulV3", _batch_matmul),
    "Einsum": lambda site: site.builder.add(
        "Einsum", *site.values(), name=site.name, equation=site.text("equation")
    ),
    "Softmax": common.plain("Softmax", axis=-1),
    "LogSoftmax": common.plain("LogSoftmax", axis=-1),
    **common.each("Mean Max Min Sum Prod", lambda name: common.reduction(f"Reduce{name}")),
    "All": _boolean_reduction("ReduceMin"),
    "Any": _boolean_reduction("ReduceMax"),
    "Cast": common.cast,
    "Select": _select,
    "ResourceGather": _gather_variable,
    **FRAMES,
    **LISTS,
    **PICTURES,
    **SHAPES,
}
