"""`cenote.compress`: treatments of a model's layers, tried one after another, and kept where they pay."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from cenote.compression.low_rank import thin
from cenote.compression.network import SharedNetwork, WeightLayer, bytes_of, layers, read
from cenote.compression.report import Compression, LayerChange, ModelSize
from cenote.compression.storage import FLOATS, INTEGERS, stored
from cenote.compression.structure import pruned
from cenote.core.errors import ArgumentError, CenoteError, InputError, UnsupportedError, shown
from cenote.core.files import replacing
from cenote.core.types import Array
from cenote.diagnosis.context import WORTH, Difference, paired
from cenote.diagnosis.treat import largest_difference
from cenote.models.loading import load
from cenote.models.model import Model
from cenote.quantization.data import runs_of
from cenote.quantization.reading import Source, destination

Goal = Literal["both", "size", "speed"]
Treatment = Literal["prune", "low_rank", "int4", "int8", "float16", "bfloat16"]
DEFAULT: tuple[Treatment, ...] = ("prune", "low_rank", "int4", "int8", "float16")
Progress = Callable[[str, int, int], None]

_SMALL = 0.01  # part of all weights: layers with less are tried together
_SECONDS = 0.4  # of a comparison
_SAME = 1e-4  # relative difference of a model in another opset
_log = logging.getLogger(__name__)


def compress(
    source: Source,
    out: str | os.PathLike[str],
    *,
    within: float = 1e-2,
    calibration: object = None,
    goal: Goal = "both",
    treatments: Sequence[Treatment] = DEFAULT,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Compression:
    """Write a smaller version of an ONNX model, which other engines run as well, and say what it costs.

    source      path, bytes, an open file or an `onnx.ModelProto`, in float32
    out         the ONNX file to write
    within      largest relative error: the largest difference of an output / its largest value, against the model
    calibration real inputs on which the error is measured, as for `cenote.quantize`: an array with the examples along
                its first axis, a dict of such by name, or an iterable of either. Without them the error is that of
                seeded standard normal numbers, which a warning says; a first axis without a size counts as 1
    goal        "both": a treatment is kept if the file gets smaller and a call not slower beyond doubt; "size": if the
                file gets smaller; "speed": if a call gets faster beyond doubt
    treatments  what is tried: "prune" (filters without weights, or with hardly any, are removed with the channels that
                read them, those that meet in residuals and the like together), "low_rank" (large products and
                convolutions of one pixel as pairs of thin ones), then for each layer the first of the types that keeps
                the bound: "int4" (blocks of 32 weights share a scale), "int8" (products: blocks of 64; convolutions:
                one scale per filter), "float16", "bfloat16"
    threads     threads of the runs, as for `cenote.load`
    progress    is called with what is being done, how much of it is done, and how much there is

    Layers with many weights come first, those with less than 1 % of all together at the end. Cenote decodes weights of
    products of few rows as it reads them; those of convolutions become float32 when the model is loaded: their file is
    smaller, their memory and time are not. Blocks and 4 bits need opset 21, to which older models are converted; where
    that fails there is no "int4", and products have a scale per column of the result in "int8" (from opset 13 on).

    Returns a Compression: sizes and times of both models, the error, and every trial.

    Raises ArgumentError for a bound that is not above 0, an unknown goal or treatment, and an `out` that is the model
    or no file; UnsupportedError for models that are not of ONNX, have no convolutions or products with float32 weights,
    or more than 2 GiB; InputError for data that does not fit; and the errors of `cenote.load`.
    """
    _check(within, goal, treatments)
    path = destination(source, out)
    network = read(source)
    if not any(layers(network)):
        raise UnsupportedError(
            "the model has no convolution or product with constant float32 weights to compress"
        )
    with _Trials(network, calibration, within, goal, threads) as trials:
        trials.raise_opset(treatments)
        work = list(_plan(trials, treatments))
        for place, (title, group, kinds) in enumerate(work):
            trials.group(title, group, kinds)
            if progress is not None:
                progress(title, place + 1, len(work))
        return trials.written(path)


def _check(within: object, goal: object, treatments: object) -> None:
    if isinstance(within, bool) or not isinstance(within, int | float) or not 0 < within < math.inf:
        raise ArgumentError(f"within: {shown(within)} is no number above 0")
    if goal not in get_args(Goal):
        raise ArgumentError(f"goal: {shown(goal)} is none of {', '.join(get_args(Goal))}")
    if isinstance(treatments, str) or not isinstance(treatments, Sequence) or not treatments:
        raise ArgumentError(f"treatments: takes a sequence of some of {', '.join(get_args(Treatment))}")
    for each in treatments:
        if each not in get_args(Treatment):
            raise ArgumentError(f"treatments: {shown(each)} is none of {', '.join(get_args(Treatment))}")


def _plan(trials: _Trials, treatments: Sequence[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield a title, the weights and the treatments of each group. Pairs of thin layers are layers for what follows,
    so the layers are looked up when their turn comes."""
    kinds = [each for each in treatments if each in (*FLOATS, *INTEGERS)]
    if "prune" in treatments:
        trials.prune()
    first = sorted(layers(trials.best), key=lambda layer: -trials.weights(layer))
    if "low_rank" in treatments:
        for layer in first:
            trials.group(layer.name, [layer.weights], ["low_rank"])
    if not kinds:
        return
    found = sorted(layers(trials.best), key=lambda layer: -trials.weights(layer))
    least = _SMALL * sum(map(trials.weights, found))
    for layer in found:
        if trials.weights(layer) >= least:
            yield layer.name, [layer.weights], kinds
    rest = [layer for layer in found if trials.weights(layer) < least]
    if rest:
        title = f"{len(rest)} small layers" if len(rest) > 1 else rest[0].name
        yield title, [layer.weights for layer in rest], kinds


class _Trials:
    """The trials of one model; `best` is the network with all that was kept, `model` what was loaded of it."""

    def __init__(
        self, network: SharedNetwork, calibration: object, within: float, goal: Goal, threads: int | None
    ) -> None:
        self.first = self.best = network
        self.within, self.goal, self.threads = within, goal, threads
        self.error, self.changes = 0.0, list[LayerChange]()
        self.before = self.model = self._loaded(network)
        self.calibrated = calibration is not None
        if not self.calibrated:
            _log.warning("compress: no calibration data is given: errors are those of random numbers")
        self.runs = (
            [_random(self.before)] if calibration is None else runs_of(self.before.inputs, calibration)
        )
        self.expected = [self.before.run(run) for run in self.runs]
        self.example = _one(self.before, self.runs[0])

    def __enter__(self) -> _Trials:
        return self

    def __exit__(self, *unused: object) -> None:
        self.before.close()
        self.model.close()

    def _loaded(self, network: SharedNetwork) -> Model:
        return load(network.message(), threads=self.threads)  # a message, so that the cache keeps no trials

    def weights(self, layer: WeightLayer) -> int:
        return bytes_of(self.best.tensors[layer.weights])

    def raise_opset(self, treatments: Sequence[str]) -> None:
        """Convert the model to an opset that has blocks, where it gives the same answers."""
        if not {*treatments} & {*INTEGERS}:
            return
        raised = self.best.with_blocks()
        if raised is None or raised is self.best:
            return
        try:
            with self._loaded(raised) as model:
                same = self._difference(model) <= _SAME
        except CenoteError:
            same = False
        if same:
            self.best = raised

    def _difference(self, model: Model) -> float:
        return max(
            largest_difference(wanted, model.run(run))
            for wanted, run in zip(self.expected, self.runs, strict=True)
        )

    def group(self, title: str, weights: Sequence[str], kinds: Sequence[str]) -> None:
        """Try treatments of layers together, until one is kept."""
        for kind in kinds:
            made = self.best
            for layer in [each for each in layers(made) if each.weights in weights]:
                other = thin(made, layer, self.within) if kind == "low_rank" else stored(made, layer, kind)
                made = other or made
            if made is not self.best and self._try(title, kind, made):
                return

    def prune(self) -> None:
        """Try to remove filters of zeros, then those that are small beside the largest of their layer."""
        for part in (0.0, self.within / 10, self.within):
            made = pruned(self.best, part)
            if made is not None:
                self._try(f"filters up to {part:.1g} of the largest", "prune", made)

    def _try(self, title: str, kind: str, made: SharedNetwork) -> bool:
        """Load and run a network; keep it if it is within the bound and reaches the goal."""
        sizes = self.best.nbytes, made.nbytes
        if sizes[1] >= sizes[0] and self.goal != "speed":
            return False
        try:
            model = self._loaded(made)
            error = self._difference(model)
        except CenoteError as fault:
            self.changes.append(LayerChange(title, kind, *sizes, why=str(fault)))
            return False
        timed: Difference | None = None
        why = f"differs by {error:.1e}" if not error <= self.within else ""
        if not why and self.goal != "size":
            timed = self._timed(model)
            slower = timed.high < 0 and -timed.middle > WORTH * timed.before_ms
            if self.goal == "speed":
                why = "" if timed.certain else "not faster beyond doubt"
            elif slower:
                why = "slower"
        before, after = (None, None) if timed is None else (timed.before_ms, timed.after_ms)
        self.changes.append(LayerChange(title, kind, *sizes, error, before, after, not why, why))
        kept, left = (model, self.model) if not why else (self.model, model)
        if left is not self.before:
            left.close()
        self.model = kept
        if not why:
            self.best, self.error = made, error
        return not why

    def _timed(self, model: Model) -> Difference:
        run = self.example
        return paired(lambda: self.model.run(run), lambda: model.run(run), _SECONDS)

    def written(self, out: Path) -> Compression:
        """Write the best network, and measure it beside the first."""
        content = self.best.content()
        with replacing(out, 0o644) as file:
            file.write(content)
        run = self.example
        timed = paired(lambda: self.before.run(run), lambda: self.model.run(run), _SECONDS)
        sizes = [
            (network.nbytes, model.plan.describe().memory.constants)
            for network, model in ((self.first, self.before), (self.best, self.model))
        ]
        before, after = ModelSize(*sizes[0], timed.before_ms), ModelSize(*sizes[1], timed.after_ms)
        return Compression(
            os.fspath(out), self.within, self.error, before, after, tuple(self.changes), self.calibrated
        )


def _one(model: Model, run: dict[str, Array]) -> dict[str, Array]:
    """Return a run's first example, where the model takes any number of them: what a server or a camera asks."""
    if all(each.shape and not isinstance(each.shape[0], int) for each in model.inputs):
        return {name: array[:1] for name, array in run.items()}
    return run


def _random(model: Model) -> dict[str, Array]:
    """Return standard normal numbers for floats, zeros for others, since an integer is often an index."""
    generator, made = np.random.default_rng(0), {}
    for declared in model.inputs:
        extents = declared.shape
        if extents and not isinstance(extents[0], int):
            extents = (1, *extents[1:])
        shape = [each for each in extents or () if isinstance(each, int)]
        if extents is None or len(shape) < len(extents):
            raise InputError(f"compress: the sizes of input {declared} are not known: give calibration data")
        floats = declared.dtype.kind in "fV"
        content = generator.standard_normal(shape) if floats else np.zeros(shape)
        made[declared.name] = content.astype(declared.dtype)
    return made
