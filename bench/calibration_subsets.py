"""Top-1 of the embedded network in 8 bits by which training pictures calibrate it, for Cenote's quantiser and ONNX
Runtime's tool: what is a difference of the tools, and what is chance. `python -m bench.calibration_subsets --help`

Each file is run by ONNX Runtime node by node, on all 10,000 test pictures. Pictures that only one of two files has
right are counted, as McNemar's test does: a difference of top-1 within the square root of their number is none.
"""

import argparse
import logging
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

import cenote
from bench.quantized_accuracy import answers, by_onnxruntime
from bench.quantized_cases import CALIBRATED, Case, fashion, pictures


def by_cenote(correct: bool) -> Callable[[Case, Path], None]:
    """Quantise by minmax, with or without correcting biases."""

    def quantize(case: Case, path: Path) -> None:
        cenote.quantize(
            case.model, case.calibration, path, method="minmax", bias_correction=correct, measure=False
        )

    return quantize


TOOLS: dict[str, Callable[[Case, Path], None]] = {
    "cenote": by_cenote(True),
    "cenote, biases kept": by_cenote(False),
    "onnxruntime": lambda case, path: by_onnxruntime(case, "minmax", path),
}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.calibration_subsets", description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=Path("fashion"), help="folder of Fashion-MNIST's four files"
    )
    parser.add_argument("--subsets", type=int, default=6, help=f"of {CALIBRATED} training pictures each")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    case, training = fashion(arguments.data), pictures(arguments.data, "train")
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model.onnx"
        onnx.save(case.model, path)
        floats = answers("node by node", path, case)[case.scores]
        print(f"float: {100 * (floats.argmax(-1) == case.labels).mean():.2f} %", flush=True)
        for subset in range(arguments.subsets):
            own = replace(case, calibration=training[subset * CALIBRATED : (subset + 1) * CALIBRATED])
            right: dict[str, np.ndarray] = {}
            for tool, quantize in TOOLS.items():
                quantize(own, path)
                found = answers("node by node", path, case)[case.scores]
                right[tool] = found.argmax(-1) == case.labels
                changed = int((found.argmax(-1) != floats.argmax(-1)).sum())
                error = np.linalg.norm(found - floats) / np.linalg.norm(floats)
                print(
                    f"{subset} {tool}: {100 * right[tool].mean():.2f} %, {changed} other classes, error {error:.4f}"
                )
            only = [
                int((right[a] & ~right[b]).sum())
                for a, b in (("cenote", "onnxruntime"), ("onnxruntime", "cenote"))
            ]
            print(f"{subset} right in one file only: cenote {only[0]}, onnxruntime {only[1]}", flush=True)


if __name__ == "__main__":
    main()
