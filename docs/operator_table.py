"""Makes docs/operators.md out of the operators: what they say themselves, and what their samples show.

For each operator its samples are tried with every element type: which are accepted, and for which there is a kernel.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import defs

from cenote.core.errors import CenoteError
from cenote.core.target import LEVELS, choose_target
from cenote.core.types import Array, TensorType, dtype_named, short_name
from cenote.frontends.microsoft.operators import NAMES
from cenote.ops.base import Op, Sample, ShapeFromData
from cenote.ops.table import DECODERS, operators
from cenote.passes.precision.widen import WORTH_IT

TARGET = choose_target(LEVELS["x86-64-v4"], "x86_64-unknown-linux-gnu", "avx2")
DTYPES = ("float32", "float16", "bfloat16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
          "uint64", "bool")  # fmt: skip
FLOW = {
    "If": "both branches are imported; an unsupported one is an error only when it is taken",
    "Loop": "the body is compiled once, for all sizes",
    "Scan": "opset 8 (batches, lengths) and 9; any axes and directions",
    "SequenceMap": "the body is compiled once",
    "Constant": "dense values",
}
DOUBLE = "float64, in which few networks compute"
_SHAPES = "known when a model is planned, or as small as a shape"
_COUNTED = (
    "the number of results depends on the data: kernels run between the parts of a program (`Op.run_on_host`)"
)
_VALUES = "values that are no tensors"
_FFT = "NumPy's own transforms and solvers are compiled code"
_USERS = "a function of the user's, in Python"
_CLASSIC = "training and features of classical models, a small part of any"
_WRITTEN = "written out by other operators, which have kernels, where these can express it"
_SEEDED = "one number, which the system draws"
_SCALES = "a kernel for constant scales"
_CONSTANT = "a kernel for constant weights, the form that fusing makes"
_BLAS = "products of float64 by the BLAS of NumPy; those of integers did not occur"
_RARE = "did not occur in the networks that were examined"
# Why operators, or types of them other than float64 alone, have no kernel.
REASONS = {
    "array_feature_extractor": _CLASSIC, "binarizer": _CLASSIC, "tf_idf_vectorizer": _CLASSIC, "adagrad": _CLASSIC,
    "adam": _CLASSIC, "momentum": _CLASSIC, "negative_log_likelihood_loss": _CLASSIC,
    "softmax_cross_entropy_loss": _CLASSIC,
    "user_function": _USERS, "einsum": _WRITTEN, "spatial_pyramid_pool": _RARE, "gated_conv": _CONSTANT,
    "banded_convs": _CONSTANT,
    "fresh_seed": _SEEDED,
    "conv_integer": _CONSTANT, "conv_integer_to_float": _CONSTANT, "dynamic_quantize_lstm": _CONSTANT,
    "qlinear_conv": _CONSTANT, "qlinear_matmul": _SCALES, "qlinear_global_average_pool": _SCALES,
    "qlinear_softmax": _SCALES, "qlinear_conv_transpose": _CONSTANT, "qlinear_conv_add": _CONSTANT,
    "shape": _SHAPES, "size": _SHAPES, "range": _SHAPES, "constant_of_shape": _SHAPES, "eye_like": _SHAPES,
    "window": _SHAPES, "mel_weight_matrix": _SHAPES, "affine_grid": _RARE, "bit_cast": _RARE,
    "gemm": _BLAS, "matmul": _BLAS,
    "non_zero": _COUNTED, "unique": _COUNTED, "compress": _COUNTED, "non_max_suppression": _COUNTED,
    "dft": _FFT, "stft": _FFT, "det": _FFT,
    **{f"sequence_{name}": _VALUES for name in ("construct", "empty", "at", "insert", "erase", "length")},
    "split_to_sequence": _VALUES, "concat_from_sequence": _VALUES, "optional": _VALUES,
    "optional_get_element": _VALUES, "optional_has_element": _VALUES,
    **dict.fromkeys((
        "channel_gather", "one_hot", "one_hot_of", "center_crop_pad", "tensor_scatter",
        "fractional_max_pool", "median_pool", "stochastic_pool", "quantize_linear", "dropout", "nms", "reduce_mean",
        "reduce_l2", "causal_conv_with_state", "linear_attention",
    ), _RARE),
}  # fmt: skip
HEAD = """# Operators

Made by `make docs` from the operators and their samples ([Add an operator](add_an_operator.md) explains these).

- **opset**: the versions of the operator in ONNX; files of opset 6 on are read, of older ones the operators
  that did not change until 7.
- **kernel**: element types for which machine code is generated (with the layouts: c is channel-blocked memory); an
  error in parentheses is allowed against the float64 reference, relative to the largest output; without one the bits
  are equal. Products and convolutions are allowed more where they add more terms, up to 5e-06 for 256 and any number
  beyond ([accuracy](benchmarks/accuracy.md)).
- **NumPy**: types that the reference computes, as a host step of the program; the reasons are [below](#numpy).
- Types "in f32" are computed in float32 and rounded in the outputs of the model or the function.

Types are those of the first input. The meaning of each operator, and its differences from ONNX or torch, are
[below](#meaning). Kernels and types are found by running samples: one that is not listed may be accepted.
"""


@dataclass
class Found:
    """What the samples of an operator show, by the element type of the first input."""

    kernels: dict[str, float] = field(default_factory=dict)
    layouts: set[str] = field(default_factory=set)
    plain: set[str] = field(default_factory=set)
    widened: set[str] = field(default_factory=set)

    def kernel_cell(self) -> str:
        by_error: dict[float, list[str]] = defaultdict(list)
        for name in DTYPES:
            if name in self.kernels:
                by_error[self.kernels[name]].append(short_name(dtype_named(name)))
        text = "; ".join(
            " ".join(names) + (f" ({error:.0e})" if error else "")
            for error, names in sorted(by_error.items())
        )
        wide = " ".join(short_name(dtype_named(name)) for name in DTYPES if name in self.widened)
        text += f"; {wide} in f32" if wide else ""
        return f"{text}, {'+'.join(sorted(self.layouts))}" if text else "-"

    def numpy_cell(self) -> str:
        return " ".join(short_name(dtype_named(name)) for name in self.by_numpy()) or "-"

    def by_numpy(self) -> list[str]:
        """The types without a kernel."""
        return [name for name in DTYPES if name in self.plain - set(self.kernels) - self.widened]


def tried(op: type[Op]) -> Found:
    """Every sample with every element type in place of its first input's."""
    found = Found()
    with np.errstate(all="ignore"):  # some overflow on purpose
        samples = list(op.samples())
    for sample in samples:
        first = next((x for x in sample.inputs if x is not None), None)
        if first is None or not first.size:
            continue
        for name in DTYPES:
            if name not in found.kernels:
                _try(sample, first.dtype, name, found)
    if op in WORTH_IT and "float32" in found.kernels:
        found.widened = {"float16", "bfloat16"} & found.plain - set(found.kernels)
    return found


def _try(sample: Sample, replaced: np.dtype[Any], name: str, found: Found) -> None:
    dtype = dtype_named(name)
    if replaced == np.dtype(object):
        return
    inputs = [None if x is None else _typed(x, replaced, dtype) for x in sample.inputs]
    try:
        outputs = sample.op.infer(*inputs)
    except (CenoteError, TypeError, ValueError):
        return
    except ShapeFromData:
        outputs = ()
    found.plain.add(name)
    if not outputs:
        return
    try:
        lowerings = list(sample.op.lowerings(inputs, TARGET))
    except (CenoteError, TypeError, ValueError, KeyError):
        return
    lowerings += [each for each in sample.op.aliases(inputs, TARGET) if not lowerings]
    if lowerings:
        found.kernels[name] = max(each.tolerance for each in lowerings)
        blocked = [any(y.is_blocked for y in each.outputs) for each in lowerings]
        found.layouts |= {"c" if each else "plain" for each in blocked}


def _typed(x: Array, replaced: np.dtype[Any], dtype: np.dtype[Any]) -> TensorType:
    """The type of an input; small ones are known, as shapes and axes must be."""
    if x.dtype != replaced:
        return TensorType.known(x)
    return TensorType(dtype, x.shape)


def versions(name: str) -> str:
    """All opsets in which ONNX changed an operator."""
    domain, _, kind = name.rpartition(".")
    found = sorted(
        schema.since_version
        for schema in defs.get_all_schemas_with_history()
        if schema.name == kind and schema.domain == domain
    )
    return ", ".join(map(str, found)) or "-"


def rows() -> Iterator[str]:
    """A row for each operator of ONNX, then for those that only passes and functions make."""
    own: list[tuple[type[Op], Found]] = []
    listed: list[tuple[str, type[Op], Found]] = []
    for op in operators():
        found = tried(op)
        listed += [(name, op, found) for name in op.from_onnx]
        if not op.from_onnx:
            own.append((op, found))
    yield "| ONNX | opset | here | kernel | NumPy |"
    yield "|---|---|---|---|---|"
    for name, op, found in sorted(listed, key=lambda each: each[0].lower()):
        cells = (name, versions(name), op.name, found.kernel_cell(), found.numpy_cell())
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield "Control flow, read by the front end:"
    yield ""
    yield from (f"- `{name}`: {text}." for name, text in FLOW.items())
    yield ""
    yield "Operators that passes, `cenote.functional` and other operators make:"
    yield ""
    yield "| here | kernel | NumPy |"
    yield "|---|---|---|"
    for op, found in sorted(own, key=lambda each: each[0].name):
        yield f"| {op.name} | {found.kernel_cell()} | {found.numpy_cell()} |"


def why_numpy() -> Iterator[str]:
    """The operators, or types of them, that run as NumPy, by reason. KeyError for one without."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for op in operators():
        found = tried(op)
        names = ", ".join(name.rpartition(".")[2] for name in op.from_onnx) or op.name
        types = found.by_numpy()
        if found.kernels and not types:
            continue
        short = " ".join(short_name(dtype_named(name)) for name in types)
        what = names if not found.kernels else f"{names} of {short}"
        only_wide = bool(found.kernels) and types == ["float64"] and op.name not in REASONS
        reasons[DOUBLE if only_wide else REASONS[op.name]].append(what)
    yield "## NumPy"
    yield ""
    yield from (f"- {reason}: {', '.join(sorted(names))}." for reason, names in sorted(reasons.items()))


def written_out() -> Iterator[str]:
    """Operators that are read as others."""
    functions = sorted(
        schema.name
        for schema in defs.get_all_schemas()
        if not schema.domain and schema.name not in DECODERS and schema.name not in FLOW
        and (schema.has_function or schema.has_context_dependent_function)
    )  # fmt: skip
    yield "## Written out by other operators"
    yield ""
    if functions:
        yield "Functions of ONNX: " + ", ".join(functions) + "."
        yield ""
    names = ", ".join(sorted(name.rpartition(".")[2] for name in NAMES))
    yield f"ONNX Runtime's own (com.microsoft): {names}."


def refused(listing: Path) -> Iterator[str]:
    """What ONNX has and Cenote has not, and the cases of ONNX's own tests that this concerns."""
    missing = sorted(
        schema.name
        for schema in defs.get_all_schemas()
        if not schema.domain and schema.name not in DECODERS and schema.name not in FLOW and not schema.deprecated
        and not (schema.has_function or schema.has_context_dependent_function)
    )  # fmt: skip
    yield "## Refused"
    yield ""
    yield "Operators of ONNX that raise `UnsupportedError`: " + ", ".join(missing) + "."
    yield ""
    head, *lines = listing.read_text(encoding="utf-8").splitlines()
    total, version = int(head.split()[2].replace(",", "")), head.split()[-1]
    yield f"Of the {total:,} cases of `onnx.backend.test` (onnx {version}) {len(lines)} raise it, all others pass:"
    yield ""
    yield "| cases | reason |"
    yield "|---:|---|"
    reasons = Counter(
        re.sub(r" \(opset \d+\)", "", line.partition(": ")[2]) for line in lines if line.strip()
    )
    for reason, count in sorted(reasons.items(), key=lambda each: (-each[1], each[0])):
        yield f"| {count} | {reason} |"


def meanings() -> Iterator[str]:
    """The docstrings."""
    yield "## Meaning"
    for op in sorted(operators(), key=lambda each: each.name):
        names = ", ".join(op.from_onnx)
        yield ""
        yield f"**{op.name}**{f' ({names})' if names else ''}: {_paragraph(op.__doc__ or '')}"


def _paragraph(text: str) -> str:
    """A docstring as one paragraph of Markdown."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")


def page(listing: Path) -> str:
    """The page; `listing` names the cases of ONNX's tests that are not supported."""
    parts: Sequence[Iterator[str]] = (
        iter([HEAD.rstrip()]),
        rows(),
        why_numpy(),
        written_out(),
        refused(listing),
        meanings(),
    )
    return "\n\n".join("\n".join(part) for part in parts) + "\n"
