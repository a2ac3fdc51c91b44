"""A quantisation in progress: the float model, what was seen of it, and the models in 8 bits that are made of it."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Sequence
from pathlib import Path

from onnx import ModelProto, NodeProto

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, UnsupportedError, near
from cenote.models.loading import load
from cenote.models.model import Model
from cenote.quantization.calibration import Tell, calibrate, levels_of
from cenote.quantization.choice import fewest
from cenote.quantization.data import Run, runs_of
from cenote.quantization.equalize import correct_biases, equalize, inputs_of_corrected
from cenote.quantization.histogram import Histogram
from cenote.quantization.layer_errors import errors_of
from cenote.quantization.metrics import Metric, Outputs, Yardstick, error, outputs_of
from cenote.quantization.network import Network, label
from cenote.quantization.placement import WEIGHTED, BytePlacement, is_weighted, place
from cenote.quantization.prepare import prepare
from cenote.quantization.qdq import WeightFormat, write_qdq
from cenote.quantization.ranges import RangeChoice
from cenote.quantization.reading import Source, read, write
from cenote.quantization.report import QuantizationReport
from cenote.quantization.scales import ByteLevels
from cenote.quantization.table import LayerErrors

# Runs whose values inside are compared for the table of errors, and on which layers are ranked.
_COMPARED, _RANKED = 8, 2
# Seconds of measuring both models in turns, and the fewest turns.
_MEASURED, _TURNS = 0.5, 3


@dataclass(frozen=True)
class Settings:
    """The arguments of `cenote.quantize` that say how values become 8 bits."""

    choice: RangeChoice
    form: WeightFormat
    equalization: bool
    bias_correction: bool
    exclude: tuple[str, ...]
    threads: int | None
    tell: Tell


@dataclass(frozen=True)
class ByteModel:
    """A model in 8 bits. `floats`: the network that it was made of, with corrected biases; `behind`: names of
    values behind their 8 bits."""

    network: Network
    behind: dict[str, str]
    floats: Network
    model: Model
    placement: BytePlacement
    levels: dict[str, ByteLevels]
    value: float


class Quantizer:
    """Everything that does not depend on which layers stay in float, and what makes a model when that is known."""

    def __init__(
        self,
        source: Source,
        calibration: object,
        evaluation: object,
        metric: Metric | None,
        settings: Settings,
    ) -> None:
        self.settings = settings
        self.network, self.notes = read(source)
        self.weights_before = self.network.weight_bytes()
        prepare(self.network)
        self._check_exclude()
        if settings.equalization:
            self.notes.append(f"equalised {equalize(self.network)} pairs of convolutions")
        self.model = load(self.network.model, threads=settings.threads)
        self.runs = runs_of(self.model.inputs, calibration)
        self.tested = (
            self.runs if evaluation is None else runs_of(self.model.inputs, evaluation, "evaluation")
        )
        self.kept: set[str] = set()
        placement = self._placement(frozenset())
        averaged = inputs_of_corrected(placement) if settings.bias_correction else set()
        self.seen: dict[str, Histogram]
        self.seen, self.means = calibrate(
            self.model, sorted(placement.groups), averaged, self.runs, settings.tell
        )
        self._keep_infinite()
        self.floats: Outputs = outputs_of(self.model, self.tested)
        self.yardstick = Yardstick(metric, self.floats)
        self.before = self.yardstick.of(self.floats)

    def make(self, left: frozenset[str]) -> ByteModel:
        """Return the model in 8 bits in which layers of these names stay in float."""
        placement = self._placement(left)
        levels = levels_of(placement, self.seen, self.settings.choice, self.settings.tell)
        floats = self.network
        if self.settings.bias_correction and placement.layers:
            copy = ModelProto()
            copy.CopyFrom(self.network.model)
            floats = Network(copy)
            layers = {layer.name for layer in placement.layers if layer.weighted}
            correct_biases(
                floats, [n for n in floats.nodes if n.name in layers], levels, self.means, self.settings.form
            )
        made = write_qdq(floats, placement, levels, self.settings.form)
        model = load(made.network.model, threads=self.settings.threads)
        value = self.yardstick.of(outputs_of(model, self.tested))
        return ByteModel(made.network, made.behind, floats, model, placement, levels, value)

    def written(self, path: Path, max_drop: float | None, measure: bool) -> QuantizationReport:
        """Write the model to a path, and report on it."""
        made = self.make(frozenset())
        left: tuple[str, ...] = ()
        if max_drop is not None and self.before - made.value > max_drop:
            made, left = self.within(made, max_drop)
        write(made.network, path)
        before, after = self.milliseconds(made) if measure else (None, None)
        first = next(iter(self.tested[0].values()))
        return QuantizationReport(
            path=str(path),
            method=self.settings.choice.method,
            layers=self.layer_errors(made),
            floats=self.float_layers(made),
            metric=self.yardstick.name,
            before=self.before,
            after=made.value,
            weights_before=self.weights_before,
            weights_after=made.network.weight_bytes(),
            ms_before=before,
            ms_after=after,
            examples=int(first.shape[0]) if first.ndim else 1,
            notes=(*self.notes, *([f"left in float for max_drop: {', '.join(left)}"] if left else ())),
        )

    def within(self, whole: ByteModel, max_drop: float) -> tuple[ByteModel, tuple[str, ...]]:
        """Return the model with the fewest layers in float whose metric drops by at most `max_drop`, and their
        names."""
        return fewest(
            self._ranked(whole.placement), self.make, lambda made: self.before - made.value, max_drop
        )

    def float_layers(self, made: ByteModel) -> tuple[str, ...]:
        """Return the names of the nodes with weights that are not on bytes."""
        quantised = {layer.name for layer in made.placement.layers}
        return tuple(
            label(node)
            for node in self.network.nodes
            if node.op_type in WEIGHTED and label(node) not in quantised
        )

    def layer_errors(self, made: ByteModel) -> tuple[LayerErrors, ...]:
        """Return the table of errors."""
        models, runs = (self.model, made.model), self.tested[:_COMPARED]
        return errors_of(
            made.floats,
            models,
            made.placement,
            made.behind,
            made.levels,
            self.settings.form,
            runs,
            self.settings.tell,
        )

    def milliseconds(self, made: ByteModel) -> tuple[float, float]:
        """Return the least times of a call of both models on the first run, measured in turns."""
        least = [float("inf"), float("inf")]
        end, turns = time.perf_counter() + _MEASURED, 0
        while turns < _TURNS or time.perf_counter() < end:
            for which, model in enumerate((self.model, made.model)):
                start = time.perf_counter()
                model.run(self.tested[0])
                least[which] = min(least[which], time.perf_counter() - start)
            turns += 1
        return least[0] * 1e3, least[1] * 1e3

    def _ranked(self, placement: BytePlacement) -> list[str]:
        """Return the names of the layers, that first whose quantisation alone disturbs the outputs most."""
        names = [layer.name for layer in placement.layers]
        runs: Sequence[Run] = self.tested[:_RANKED]
        errors: dict[str, float] = {}
        quiet = lambda what, done, total: None  # noqa: E731
        for done, name in enumerate(names):
            self.settings.tell("ranking layers", done, len(names))
            alone = self._placement(frozenset(names) - {name})
            levels = levels_of(alone, self.seen, self.settings.choice, quiet)
            made = write_qdq(self.network, alone, levels, self.settings.form)
            with load(made.network.model, threads=self.settings.threads) as model:
                errors[name] = error(self.floats[: len(runs)], outputs_of(model, runs))
        self.settings.tell("ranking layers", len(names), len(names))
        return sorted(names, key=lambda name: -errors[name])

    def _placement(self, left: frozenset[str]) -> BytePlacement:
        def excluded(node: NodeProto) -> bool:
            return label(node) in left or any(_matches(pattern, node) for pattern in self.settings.exclude)

        return place(self.network, excluded, self.kept)

    def _keep_infinite(self) -> None:
        """Leave values in float that are NaN or infinite inside of the model, and refuse a model with nothing left."""
        infinite = sorted(name for name, histogram in self.seen.items() if histogram.infinite)
        self.kept |= set(infinite)
        self.notes += [f"'{name}' is NaN or infinite on this data: it stays in float" for name in infinite]
        if not any(layer.weighted for layer in self._placement(frozenset()).layers):
            there = [node for node in self.network.nodes if node.op_type in WEIGHTED]
            fit = [node for node in there if is_weighted(self.network, node)]
            raise UnsupportedError(
                f"there is nothing to quantise: of {len(there)} convolutions and products {len(fit)} have constant, "
                f"finite weights of float32, and none of these is left (exclude={self.settings.exclude!r})"
            )

    def _check_exclude(self) -> None:
        nodes = self.network.nodes
        for pattern in self.settings.exclude:
            if not any(_matches(pattern, node) for node in nodes):
                known = {label(node) for node in nodes} | {node.op_type for node in nodes}
                raise ArgumentError(
                    f"exclude: '{pattern}' fits no node and no operator{near(pattern, known)}"
                )


def _matches(pattern: str, node: NodeProto) -> bool:
    """Whether a pattern fits a node's name, its operator or the name of one of its results."""
    return any(fnmatch.fnmatchcase(name, pattern) for name in (label(node), node.op_type, *node.output))
