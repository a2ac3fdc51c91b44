"""`cenote.quantize`: a float model of ONNX and calibration data to a model in 8 bits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from cenote.core.errors import ArgumentError, refusals, shown
from cenote.quantization.metrics import Metric
from cenote.quantization.qdq import WeightFormat
from cenote.quantization.quantizer import Quantizer, Settings
from cenote.quantization.ranges import Method, RangeChoice
from cenote.quantization.reading import Source, destination
from cenote.quantization.report import QuantizationReport

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    Item = ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike]
    Data = ArrayLike | Mapping[str, ArrayLike] | Iterable[Item]


def quantize(
    source: Source,
    calibration: Data,
    out: str | os.PathLike[str],
    *,
    method: Method = "mse",
    percentile: float = 99.999,
    per_channel: bool = True,
    reduce_range: bool = False,
    equalization: bool = False,
    bias_correction: bool = True,
    exclude: str | Sequence[str] = (),
    max_drop: float | None = None,
    metric: Metric | None = None,
    evaluation: Data | None = None,
    measure: bool = True,
    threads: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> QuantizationReport:
    """Quantise a trained model of float32 to 8 bits, and write it as standard ONNX that other engines run, too.

    source           path, bytes, open binary file or `onnx.ModelProto` of ONNX; opsets under 13 are converted
    calibration      some tens to hundreds of real inputs, kept in memory: an array with all examples along its first
                     axis, a dict of such by input, or an iterable of arrays, tuples or dicts, for one example or more
    out              path to write (activations u8, weights s8, biases int32; constants from 1.9 GB on beside it)
    method           a value's range: "minmax" all numbers; "percentile" all but the outermost, leaving `percentile` %;
                     "entropy" by the least loss of information; "mse" by the least square of the error
    per_channel      a scale per filter of the weights, or one for all
    reduce_range     weights from -63 to 63, for engines whose sums of products saturate on CPUs without VNNI
    equalization     even the ranges of convolutions' channels first, which helps one scale for all
    bias_correction  add to biases what rounded weights take from the mean of a layer's results
    exclude          names of nodes or operators, or patterns of such ("head/*"), that stay in float
    max_drop         leave those layers in float that disturb most, as few as bring the drop of the metric to this
    metric           function of the outputs by name, of all examples, that returns a number of which more is better. By
                     default the share of examples with the float model's class, where the output is scores of classes;
                     else one minus the relative error against the float model
    evaluation       inputs for the metric, in the forms of `calibration`, which are taken by default
    measure          time both models, for half a second
    threads          threads of the runs, as for `cenote.load`
    progress         is called with what is being done, how much of it is done, and how much there is

    Returns a QuantizationReport: the metric of both models, bytes, times, and the errors of each layer.

    Raises InputError for data that is empty, does not fit, or has NaN or infinities; UnsupportedError for other
    formats, for a model that is quantised already and one with nothing to quantise; ArgumentError; OSError; as `load`.
    """
    settings = Settings(
        RangeChoice(method, percentile),
        WeightFormat(_flag("per_channel", per_channel), 63 if _flag("reduce_range", reduce_range) else 127),
        _flag("equalization", equalization),
        _flag("bias_correction", bias_correction),
        _patterns(exclude),
        threads,
        progress or (lambda what, done, total: None),
    )
    path, most = destination(source, out), _drop(max_drop)
    with refusals("quantising a model"):
        return Quantizer(source, calibration, evaluation, metric, settings).written(path, most, measure)


def _drop(given: object) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not given >= 0:
        raise ArgumentError(f"max_drop: {shown(given)} is not a number from 0 on")
    return float(given)


def _patterns(exclude: object) -> tuple[str, ...]:
    patterns = (exclude,) if isinstance(exclude, str) else exclude
    if not isinstance(patterns, Sequence) or not all(isinstance(each, str) for each in patterns):
        raise ArgumentError(f"exclude: {shown(exclude)} is not a name or a list of names")
    return tuple(patterns)


def _flag(name: str, given: object) -> bool:
    if not isinstance(given, bool):
        raise ArgumentError(f"{name}: {shown(given)} is not True or False")
    return given
