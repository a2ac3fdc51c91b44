"""Accuracy of models in 8 bits: Cenote's quantiser beside ONNX Runtime's tool, on the same calibration data, each file
run by Cenote, ONNX Runtime and OpenVINO. `python -m bench.quantized_accuracy --help`

The relative error (rms) against the float model, and top-1 on labelled pictures: for each of both tools and each
method, the file is scored by each engine. ONNX Runtime "node by node" computes in float on rounded numbers, so it is
the file's own accuracy, without what an engine's arithmetic adds (saturation on CPUs without VNNI).
"""

import argparse
import json
import logging
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx

from bench.files import MODEL_FOLDER
from bench.machine import describe, describe_markdown
from bench.quantized_cases import Case, cases
from bench.report import table

METHODS = ("minmax", "percentile", "entropy", "mse")
ENGINES = ("node by node", "onnxruntime", "openvino", "cenote")
BATCH = 64


@dataclass(frozen=True)
class Line:
    """The scores of one file by engine, or why there is none."""

    case: str
    tool: str
    scores: dict[str, str]


def batches(x: np.ndarray, model: onnx.ModelProto, name: str) -> Iterator[np.ndarray]:
    """The examples in runs of as many as a model takes."""
    declared = next(each for each in model.graph.input if each.name == name)
    most = declared.type.tensor_type.shape.dim[0].dim_value or max(1, min(BATCH, (1 << 21) // x[0].size))
    # All of one size: ONNX Runtime's histograms fail at a smaller last one.
    size = next(each for each in range(most, 0, -1) if len(x) % each == 0)
    for first in range(0, len(x), size):
        yield x[first : first + size]


class _Reader:
    """Calibration data of onnxruntime.quantization."""

    def __init__(self, case: Case, model: onnx.ModelProto) -> None:
        self.left = iter([{case.input: each} for each in batches(case.calibration, model, case.input)])

    def get_next(self) -> dict[str, Any] | None:
        return next(self.left, None)


def by_onnxruntime(case: Case, method: str, path: Path) -> None:
    """Quantise as ONNX Runtime's tool does: prepared, per channel, u8 activations, s8 weights, QDQ."""
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    source, prepared = path.with_suffix(".float.onnx"), path.with_suffix(".prepared.onnx")
    opset = next(each.version for each in case.model.opset_import if each.domain == "")
    onnx.save(case.model if opset >= 13 else onnx.version_converter.convert_version(case.model, 13), source)
    quant_pre_process(source, prepared, skip_symbolic_shape=True)
    quantize_static(
        prepared,
        path,
        _Reader(case, onnx.load(prepared)),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=getattr(CalibrationMethod, {"minmax": "MinMax"}.get(method, method.capitalize())),
    )


def by_cenote(case: Case, method: str, path: Path) -> None:
    """Quantise as `cenote.quantize` does by default, with this method."""
    import cenote
    from cenote.quantization.ranges import Method

    cenote.quantize(case.model, case.calibration, path, method=cast(Method, method), measure=False)


TOOLS: dict[str, Callable[[Case, str, Path], None]] = {"cenote": by_cenote, "onnxruntime": by_onnxruntime}


def answers(engine: str, path: Path, case: Case) -> dict[str, np.ndarray]:
    """A file's outputs for all tests."""
    model = onnx.load(path)
    run = _runner(engine, path, case)
    parts = [run(np.ascontiguousarray(each)) for each in batches(case.tests, model, case.input)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _runner(engine: str, path: Path, case: Case) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    if engine == "cenote":
        import cenote

        model = cenote.load(path)
        return lambda x: model.run({case.input: x})
    names = [each.name for each in case.model.graph.output]
    if engine == "openvino":
        import openvino

        # Its default on some CPUs is bfloat16, which would be another error.
        compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        return lambda x: {
            name: np.array(array) for name, array in zip(names, compiled([x]).values(), strict=True)
        }
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if engine == "node by node":
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda x: dict(zip(names, session.run(names, {case.input: x}), strict=True))


def score(case: Case, found: dict[str, np.ndarray], floats: dict[str, np.ndarray]) -> str:
    """The relative error of the worst output, and top-1 in percent where there are labels."""
    worst = max(float(np.linalg.norm(found[name] - y) / np.linalg.norm(y)) for name, y in floats.items())
    if case.labels is None:
        return f"{worst:.4f}"
    return f"{100 * float((found[case.scores].argmax(axis=-1) == case.labels).mean()):.2f} %, {worst:.4f}"


def measure(
    case: Case, folder: Path, known: Collection[tuple[str, str]], tell: Callable[[Line], None]
) -> None:
    """All lines of a case but those that are `known`, by case and file."""
    files = [
        (tool, method) for method in METHODS for tool in TOOLS if (tool, method) != ("onnxruntime", "mse")
    ]
    named = {"float": None, **{f"{tool}, {method}": (tool, method) for tool, method in files}}
    left = {name: made for name, made in named.items() if (case.name, name) not in known}
    if not left:
        return
    path = folder / "float.onnx"
    onnx.save(case.model, path)
    floats = answers("node by node", path, case)
    for name, made in left.items():
        if made is not None:
            tool, method = made
            path = folder / f"{tool}.onnx"
            try:
                TOOLS[tool](case, method, path)
            except Exception as error:  # a peer's tool: a line of the report
                tell(Line(case.name, name, {ENGINES[0]: _short(error)}))
                continue
        tell(Line(case.name, name, {each: _attempt(each, path, case, floats) for each in ENGINES}))


def _attempt(engine: str, path: Path, case: Case, floats: dict[str, np.ndarray]) -> str:
    try:
        return score(case, answers(engine, path, case), floats)
    except Exception as error:  # a peer's: a cell of the report
        return _short(error)


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"


def markdown(lines: Sequence[Line]) -> str:
    """The report."""
    rows = [[line.case, line.tool, *(line.scores.get(engine, "") for engine in ENGINES)] for line in lines]
    text = "Relative error (rms) against float, top-1 before it where there are labels. Columns: who runs the file."
    return "\n".join(
        [
            "# Accuracy in 8 bits",
            "",
            text,
            "",
            table(["model", "file by", *ENGINES], rows),
            describe_markdown(describe()),
        ]
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.quantized_accuracy", description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=Path("fashion"), help="folder of Fashion-MNIST's four files"
    )
    parser.add_argument(
        "--folder", type=Path, default=MODEL_FOLDER, help="where bench.export wrote the networks"
    )
    parser.add_argument("--cases", help="names (default: all)")
    parser.add_argument("--output", type=Path, help="write the report to this file")
    parser.add_argument(
        "--lines",
        type=Path,
        help="keep the lines found so far in this file (JSON): those in it are not measured again",
    )
    arguments = parser.parse_args()
    known = cases(arguments.data, arguments.folder)
    logging.disable(logging.WARNING)
    lines = stored(arguments.lines)

    def tell(line: Line) -> None:
        lines.append(line)
        print(line.case, line.tool, line.scores, flush=True)
        if arguments.lines:
            arguments.lines.write_text(json.dumps([asdict(each) for each in lines], indent=1))
        if arguments.output:
            arguments.output.write_text(markdown(lines))

    for name in (arguments.cases or ",".join(known)).split(","):
        with tempfile.TemporaryDirectory() as folder:
            measure(known[name](), Path(folder), {(each.case, each.tool) for each in lines}, tell)
    if arguments.output:
        arguments.output.write_text(markdown(lines))


def stored(path: Path | None) -> list[Line]:
    """The lines that a run which was stopped has left in a file."""
    if path is None or not path.exists():
        return []
    return [Line(**each) for each in json.loads(path.read_text())]


if __name__ == "__main__":
    main()
