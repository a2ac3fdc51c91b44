"""onnxruntime's own tests of its Python API on `cenote.ort`: `python -m tests.ort.upstream FOLDER`

FOLDER is onnxruntime's source (any release from 1.20 on), which is not part of this repository; the tests are found in
it. Their data, binary files, is replaced by models of the same names made here, from what the tests say of
them. Prints each test with "passed", "not applicable" and why, or "failed", and counts; ends with 1 where one failed.
`--engine onnxruntime` runs them on onnxruntime itself, which proves the models.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import types
import unittest
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

MODULES = (
    "onnxruntime_test_python", "onnxruntime_test_python_iobinding", "onnxruntime_test_python_nested_control_flow_op",
    "onnxruntime_test_python_backend", "onnxruntime_test_python_mlops", "onnxruntime_test_python_sparse_matmul",
)  # fmt: skip
_ML = "classical machine learning (operators of ai.onnx.ml)"
_SPARSE = "sparse tensors"
NOT_APPLICABLE = {
    "test_register_custom_ops_library": "a library of operators in C++",
    "test_register_custom_e_ps_library": "a library of an execution provider in C++",
    "test_loading_session_options_from_model": "session options inside a model's metadata",
    "test_adater_export_read": "adapters (LoRA)",
    "test_run_with_adapter": "adapters (LoRA)",
    "test_run_base_model": "adapters (LoRA): their model is a binary file",
    "test_sparse_tensor_coo_format": _SPARSE,
    "test_sparse_tensor_csr_format": _SPARSE,
    "onnxruntime_test_python_mlops": _ML,
    "onnxruntime_test_python_sparse_matmul": _SPARSE,
}

value, sequence, node = (
    helper.make_tensor_value_info,
    helper.make_tensor_sequence_value_info,
    helper.make_node,
)


def save(
    name: str, inputs: list[Any], outputs: list[Any], nodes: list[Any], **weights: np.ndarray
) -> onnx.ModelProto:
    """Write a model into the folder of test data."""
    initializers = [numpy_helper.from_array(array, weight) for weight, array in weights.items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    Path("testdata", f"{name}.onnx").parent.mkdir(parents=True, exist_ok=True)
    onnx.save(made, Path("testdata", f"{name}.onnx"))
    return made


def make_plain_models() -> None:
    factors = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    x, y = value("X", T.FLOAT, [3, 2]), value("Y", T.FLOAT, [3, 2])
    save("mul_1", [x], [y], [node("Mul", ["X", "W"], ["Y"])], W=factors)
    column = np.array([[1], [2]], np.float32)
    save("matmul_1", [x], [value("Y", T.FLOAT, [3, 1])], [node("MatMul", ["X", "W"], ["Y"])], W=column)
    x, y = value("X", T.FLOAT, ["None", 2]), value("Y", T.FLOAT, ["None", 1])
    save("matmul_2", [x], [y], [node("MatMul", ["X", "W"], ["Y"])], W=column)
    pair = [value(name, T.BOOL, [2, 2]) for name in ("input1:0", "input:0")]
    both = node("And", ["input1:0", "input:0"], ["output:0"])
    save("logicaland", pair, [value("output:0", T.BOOL, [2, 2])], [both])
    texts = value("input:0", T.STRING, [2, 2]), value("output:0", T.STRING, [2, 2])
    save("identity_string", [texts[0]], [texts[1]], [node("Identity", ["input:0"], ["output:0"])])
    free = save(
        "abs_free_dimensions",
        [value("x", T.FLOAT, ["Dim1", "Dim2", 5])],
        [value("y", T.FLOAT, None)],
        [node("Abs", ["x"], ["y"])],
    )
    for dimension, denotation in zip(
        free.graph.input[0].type.tensor_type.shape.dim, ("DATA_BATCH", "DATA_CHANNEL"), strict=False
    ):
        dimension.denotation = denotation
    onnx.save(free, "testdata/abs_free_dimensions.onnx")
    ten = [value(name, T.FLOAT, [10]) for name in ("inp0", "inp1", "outp0", "outp1")]
    steps = [
        node("Add", ["inp0", "inp1"], ["a"]),
        node("Sub", ["inp0", "inp1"], ["s"]),
        node("Neg", ["a"], ["outp0"]),
        node("Neg", ["s"], ["outp1"]),
    ]
    save("alloc_tensor_reuse", ten[:2], ten[2:], steps)
    digits = [node("Flatten", ["Input3"], ["f"]), node("MatMul", ["f", "W"], ["Plus214_Output_0"])]
    save(
        "mnist",
        [value("Input3", T.FLOAT, [1, 1, 28, 28])],
        [value("Plus214_Output_0", T.FLOAT, [1, 10])],
        digits,
        W=np.ones((784, 10), np.float32),
    )


def make_sequence_models() -> None:
    whole = [value(name, T.INT64, [2, 3]) for name in ("tensor1", "tensor2", "tensor")]
    made = sequence("output_sequence", T.INT64, None)
    save(
        "sequence_construct",
        whole[:2],
        [made],
        [node("SequenceConstruct", ["tensor1", "tensor2"], ["output_sequence"])],
    )
    given = sequence("input_seq", T.INT64, None)
    save(
        "sequence_insert",
        [given, whole[2]],
        [made],
        [node("SequenceInsert", ["input_seq", "tensor"], ["output_sequence"])],
    )
    save(
        "sequence_length",
        [sequence("X", T.FLOAT, None)],
        [value("Y", T.INT64, [])],
        [node("SequenceLength", ["X"], ["Y"])],
    )
    kind = helper.make_optional_type_proto(
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(T.FLOAT, ["n"]))
    )
    ends = [onnx.ValueInfoProto(name=name, type=kind) for name in ("opt_in", "opt_out")]
    save("identity_opt", ends[:1], ends[1:], [node("Identity", ["opt_in"], ["opt_out"])])


def make_models_with_outside_weights() -> None:
    four = value("X", T.INT64, [4]), value("Y", T.INT64, [4])
    total, zeros = node("Add", ["X", "Pads_not_on_disk"], ["Y"]), np.zeros(4, np.int64)
    name = "model_with_external_initializer_come_from_user"
    padded = save(name, [four[0]], [four[1]], [total], Pads_not_on_disk=zeros)
    weight = padded.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = T.EXTERNAL
    weight.external_data.add(key="location", value="nowhere.bin")
    onnx.save(padded, f"testdata/{name}.onnx")
    sums = [node("Add", ["X", "W"], ["Y"])]
    plain = save(
        "model_with_orig_ext_data",
        [value("X", T.FLOAT, [64])],
        [value("Y", T.FLOAT, [64])],
        sums,
        W=np.ones(64, np.float32),
    )
    onnx.save(
        plain,
        "testdata/model_with_orig_ext_data.onnx",
        save_as_external_data=True,
        location="orig_ext_data.bin",
        size_threshold=16,
    )


def stand_in_for_old_onnx() -> None:
    """`onnx.mapping`, which the tests read and the newest onnx does not have."""
    made = types.ModuleType("onnx.mapping")
    kinds = [kind for kind in T.DataType.values() if kind]
    made.TENSOR_TYPE_MAP = {  # type: ignore[attr-defined]
        kind: types.SimpleNamespace(np_dtype=np.dtype(helper.tensor_dtype_to_np_dtype(kind)))
        for kind in kinds
    }
    sys.modules.setdefault("onnx.mapping", made)


def tests_of(suite: Any) -> list[unittest.TestCase]:
    return [
        test
        for each in suite
        for test in (tests_of(each) if isinstance(each, unittest.TestSuite) else [each])
    ]


def reason_of(test: unittest.TestCase, module: str) -> str:
    name = test.id().rsplit(".", 1)[-1]
    return NOT_APPLICABLE.get(name) or NOT_APPLICABLE.get(module, "")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engine", choices=("cenote", "onnxruntime"), default="cenote")
    options = parser.parse_args()
    first = next(options.folder.resolve().rglob(f"{MODULES[0]}.py"), None)
    if first is None:
        parser.error(f"{options.folder}: there is no {MODULES[0]}.py in it")
    folder = first.parent
    if options.engine == "cenote":
        import cenote.ort

        cenote.ort.install()
    stand_in_for_old_onnx()
    sys.path.insert(0, str(folder))
    os.chdir(tempfile.mkdtemp())
    make_plain_models()
    make_sequence_models()
    make_models_with_outside_weights()
    counts: Counter[str] = Counter()
    for module in MODULES:
        if not (folder / f"{module}.py").exists():
            continue
        try:
            suite = unittest.defaultTestLoader.loadTestsFromModule(on_the_cpu(import_module(module)))
        except ImportError as error:
            reason = NOT_APPLICABLE.get(module, "")
            counts["not applicable" if reason else "failed"] += 1
            print(f"{module}: {f'not applicable: {reason}' if reason else f'FAILED: {error}'}")
            continue
        for test in tests_of(suite):
            verdict = run(test, module)
            counts[verdict.split(":")[0]] += 1
            print(
                f"{module.removeprefix('onnxruntime_test_')} {test.id().rsplit('.', 1)[-1]}: {verdict}",
                flush=True,
            )
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return 1 if counts["FAILED"] or counts["failed"] else 0


def on_the_cpu(module: Any) -> Any:
    """Tests that name GPUs alone, and are skipped without one, are to use the CPU."""
    if hasattr(module, "test_params"):
        module.test_params = [("cpu", "CPUExecutionProvider", module.C_OrtDevice.cpu)]
    nested = getattr(module, "TestNestedControlFlowOpsGraph", None)
    if nested is not None:
        nested.test_3_level_control_flow_ops_graph = lambda _: module.test_nested_optional_greater_or_equal()
    return module


def run(test: unittest.TestCase, module: str) -> str:
    result = unittest.TestResult()
    sys.stdout.flush()
    test.run(result)
    reason = reason_of(test, module)
    if result.skipped and result.wasSuccessful():
        return f"not applicable: {result.skipped[0][1]}"
    if result.wasSuccessful():
        return "passed"
    if reason:
        return f"not applicable: {reason}"
    return "FAILED: " + [*result.errors, *result.failures][0][1].strip().splitlines()[-1][:200]


if __name__ == "__main__":
    sys.exit(main())
