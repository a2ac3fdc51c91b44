"""`cenote quantize`: a float model and example inputs to a model in 8 bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from numpy.typing import NDArray

import cenote
from cenote.cli.console import progressing, say, say_json, waiting, write
from cenote.cli.inputs import Inputs, read_array, read_runs
from cenote.cli.options import Json
from cenote.cli.preprocess import Pictures, Preprocess

_ARRAYS = (".npy", ".npz")


@dataclass(frozen=True)
class Ways:
    """The options that say how values become 8 bits."""

    method: Annotated[
        Literal["minmax", "percentile", "entropy", "mse"], typer.Option(help="How a value's range is chosen.")
    ] = "mse"
    percentile: Annotated[
        float,
        typer.Option(min=50, max=100, help="Of the numbers, inside of the range (--method percentile)."),
    ] = 99.999
    per_tensor: Annotated[
        bool, typer.Option("--per-tensor", help="One scale for a layer's weights, not one per filter.")
    ] = False
    reduce_range: Annotated[
        bool, typer.Option("--reduce-range", help="Weights in 7 bits, for engines whose sums saturate.")
    ] = False
    equalize: Annotated[
        bool, typer.Option("--equalize", help="Even the ranges of convolutions' channels first.")
    ] = False
    correct_bias: Annotated[
        bool,
        typer.Option(
            "--correct-bias/--keep-bias", help="Add the mean that rounded weights lose to biases, or do not."
        ),
    ] = True
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            help="A node, operator or pattern ('head/*') that stays in float.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None
    max_drop: Annotated[
        float | None,
        typer.Option(
            min=0, help="Leave layers in float until the metric drops by no more.", show_default=False
        ),
    ] = None

    def keywords(self) -> dict[str, Any]:
        """Return them as those of `cenote.quantize`."""
        return {
            "method": self.method,
            "percentile": self.percentile,
            "per_channel": not self.per_tensor,
            "reduce_range": self.reduce_range,
            "equalization": self.equalize,
            "bias_correction": self.correct_bias,
            "exclude": self.exclude or (),
            "max_drop": self.max_drop,
        }


def quantize(
    ways: Ways,
    pictures: Pictures,
    model: Annotated[
        Path, typer.Argument(help="A float model of ONNX.", metavar="MODEL", show_default=False)
    ],
    inputs: Annotated[
        list[Path],
        typer.Argument(
            help="Real inputs to calibrate on: pictures, .npy, .npz, or folders of such; all examples of an array lie "
            "along its first axis. A model with several inputs takes .npz.",
            metavar="INPUT",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file to write.", metavar="FILE", show_default=False)
    ],
    labels: Annotated[
        Path | None,
        typer.Option(
            help="The right classes of the inputs in order (.npy, or a number per line): the metric is accuracy then.",
            show_default=False,
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with a picture of errors.", show_default=False)
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, max=256, help="As for loading.")] = None,
    as_json: Json = False,
) -> None:
    """Quantise a float model of ONNX to 8 bits after training, and show what each layer loses.

    Without --labels the metric is the share of inputs with the class of the float model, for models that give scores
    of classes, else 1 - relative error.
    """
    data = calibration_data(model, inputs, output, pictures.settings(), threads)
    metric = None if labels is None else _accuracy(labels)
    with progressing(f"quantising {model.name}") as progress:
        made = cenote.quantize(
            model, data, output, metric=metric, threads=threads, progress=progress, **ways.keywords()
        )
    if html is not None:
        write(html, made.html())
    if as_json:
        say_json({"file": str(model), **made.as_dict()})
    else:
        say(str(made))


def calibration_data(
    model: Path, inputs: Sequence[Path], output: Path, settings: Preprocess, threads: int | None
) -> list[Inputs]:
    """Read the data: a run for each file, in the order of names in folders. Raises ArgumentError where the file to
    write is one of them."""
    files = [str(file) for path in inputs for file in (_files(path) if path.is_dir() else [path])]
    if output.is_file() and any(Path(file).exists() and output.samefile(file) for file in files):
        raise cenote.ArgumentError(f"--output: {output} is one of the inputs")
    with waiting(f"reading {len(files)} files"), cenote.load(model, threads=threads) as loaded:
        if all(file.endswith(".npz") for file in files):
            return [given for file in files for _, given in read_runs(loaded, [file], settings)]
        return [given for _, given in read_runs(loaded, files, settings)]


def _files(folder: Path) -> list[Path]:
    """The arrays of a folder, or its pictures where it has none."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return [path for path in files if path.suffix in _ARRAYS] or files


def _accuracy(path: Path) -> Callable[[Mapping[str, Any]], float]:
    """Return the metric of accuracy against classes in a file."""
    try:
        truth = read_array(path) if path.suffix == ".npy" else np.loadtxt(path, np.int64, ndmin=1)
    except cenote.InputError as error:
        raise typer.BadParameter(str(error), param_hint="--labels") from None
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{path}: {error}", param_hint="--labels") from None

    def accuracy(outputs: Mapping[str, Any]) -> float:
        scores: NDArray[Any] | list[Any] = next(iter(outputs.values()))
        if not isinstance(scores, np.ndarray) or scores.ndim != 2 or scores.shape[:1] != truth.shape:
            shown = getattr(scores, "shape", "arrays of several shapes")
            raise typer.BadParameter(
                f"{path}: {truth.shape} classes for scores of {shown}; they fit models that give [inputs, classes]",
                param_hint="--labels",
            )
        return float((scores.argmax(axis=1) == truth).mean())

    return accuracy
