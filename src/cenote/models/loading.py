"""Loading: from a file, bytes or a parsed model to a `Model`."""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from cenote.core.errors import (
    ArgumentError,
    CenoteError,
    MissingFileError,
    ModelError,
    UnsupportedError,
    refusals,
)
from cenote.core.load_options import NO_OPTIONS, LoadOptions
from cenote.core.locks import importing
from cenote.core.options import Blocks, Denormals, Format, Precision, Threads, Tune, Weights
from cenote.models.exporting import WeightsPlace, export
from cenote.models.model import Model
from cenote.models.origin import PlanOrigin, SourceOrigin, StreamOrigin, main_file
from cenote.plans.format import is_plan_file
from cenote.plans.reader import PlanFile
from cenote.plans.source import content_of
from cenote.runtime.threads import near_threads, resolve_threads
from cenote.stages.planned import shared_under

if TYPE_CHECKING:
    from onnx import ModelProto

    from cenote.core.extensions.functions import OperatorFunction

_log = logging.getLogger(__name__)


def load(
    source: str | os.PathLike[str] | bytes | BinaryIO | ModelProto,
    *,
    threads: Threads | None = None,
    precision: Precision = "fast",
    weights: Weights = "float32",
    tune: Tune = "cached",
    blocks: Blocks = "usual",
    denormals: Denormals | None = None,
    shapes: Mapping[str, Sequence[int | str | None]] | None = None,
    format: Format | None = None,
    signature: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    operators: Mapping[str, OperatorFunction | Callable[..., Any]] | None = None,
    algorithms: Mapping[str, str] | None = None,
    extensions: Sequence[str] = (),
) -> Model:
    """Load a model and make it ready to run.

    source     path of a model or a plan file (`Model.save`), a model's bytes, an open binary file, or an
               `onnx.ModelProto`. Models are ONNX, TensorFlow's frozen graphs (.pb, .pbtxt), SavedModel folders, graphs
               beside their checkpoint (.meta), TensorFlow Lite, Keras (.keras, .h5), folders of `cenote.extract`
    threads    threads per inference; by default CENOTE_THREADS, or one per core; "bound": each on a core of its own
    precision  "exact": without Winograd's and Strassen's algorithms (2 to 3 times a plain sum's rounding error), in
               chains of 32 terms, not 256, and averages, sums, norms and statistics in float64; "bfloat16":
               operands of convolutions and products, and values between convolutions, are rounded to 8 bits where the
               CPU multiplies bfloat16 faster than float32, and weights="bfloat16" unless that says float16;
               "float16x3": convolutions and products also by three products of float16 where the CPU has tiles for them
               (AMX-FP16), as accurate as plain sums in float32 unless channels of a pixel lie 2^24 apart
    weights    "bfloat16", "float16": linear layers store weights so (rounded by 2^-9, 2^-12; half the time on few rows)
    tune       "full": time algorithms that the cost model finds close, and cache that; "cached": use it; "off": neither
    blocks     "smaller", "larger": kernels work in blocks of half or twice the usual size
    denormals  "flush": numbers below 1.2e-38, which are slow, may be taken as zero; by default CENOTE_DENORMALS
    shapes     for each input by name an entry per axis: a size fixes a symbolic dimension, "h<=640" bounds it, "h" or
               None leaves it open. Equal names are equal sizes: shapes={"x": ("n<=8", 3, "h<=640", "w<=640")}
    format     "onnx", "graphdef", "savedmodel", "metagraph", "tflite", "keras", "layers" or "bat"; else the content's
    signature  function of a SavedModel (default "serving_default") or a TensorFlow Lite model (its first)
    inputs     names of values ("scope/node:1") to load the part of the model behind them; by default what outputs need
    outputs    names of values to load the part before them; by default the model's outputs
    algorithms {"conv1": "direct", "max_pool": "generic"}: by nodes' names, which win, or operators'; "reference": NumPy
    operators  functions (or `cenote.OperatorFunction`) that compute nodes, by operator: {"shop.Frobnicate": f}; f gets
               inputs as arrays, attributes by name, and returns an array or a tuple. They win over all other operators
    extensions algorithms and rewrites of users to switch on (`cenote.register_algorithm`, `cenote.register_rewrite`)

    With bounds for all dimensions (without, a first axis counts as 1) it is planned for the largest sizes, and memory
    taken, at once; a run beyond a bound raises ShapeError. A plan file takes threads, denormals, bounds, operators.
    Compiled models are cached, but for file objects, ModelProtos and loops: a later load, in any process, compiles
    nothing and shares the weights (CENOTE_PLAN_CACHE limits the megabytes).

    Raises MissingFileError, ModelError for an invalid model, UnsupportedError for a valid one that Cenote cannot run
    and for options that differ from a plan file's, OperatorError where a user's function fails, ArgumentError for a bad
    argument, an unknown name, an input that is needed and not named, and (with open sizes when a run needs a plan) an
    algorithm that a node does not have, CapacityError for lack of memory.
    """
    return load_with(source, LoadOptions(threads=threads, precision=precision, weights=weights, tune=tune,
        blocks=blocks, denormals=denormals, format=format, signature=signature, inputs=inputs, outputs=outputs,
        extensions=extensions, shapes={} if shapes is None else shapes, operators={} if operators is None else
        operators, algorithms={} if algorithms is None else algorithms,
    ))  # fmt: skip


def load_with(
    source: str | os.PathLike[str] | bytes | BinaryIO | ModelProto, options: LoadOptions = NO_OPTIONS
) -> Model:
    """Load a model as `load`, with options as one value, which also holds rewrites. Raises as `load`."""
    with refusals("loading a model"), near_threads(options.threads):
        source = _kept(source)
        if isinstance(source, str | os.PathLike):
            if (plan_file := PlanFile.at(source)) is not None:
                with plan_file:
                    return _of_plan(plan_file, options)
            if not os.path.lexists(
                source
            ):  # before what reads models is looked for, which cenote-runtime lacks
                name = os.fspath(source)
                raise MissingFileError(f"{name}: there is no such file", name)
        elif is_plan_file(_start(source)):
            raise ArgumentError("source: a plan file is mapped into memory, not read; load it by its path")
        made_from = StreamOrigin if hasattr(source, "read") else SourceOrigin
        return Model.of(made_from(source, options, load_again), shared_under(options))


def export_model(
    source: str | os.PathLike[str] | bytes | BinaryIO | ModelProto,
    folder: str | os.PathLike[str],
    *,
    target: str,
    name: str = "",
    shapes: Sequence[Mapping[str, Sequence[int]]] = (),
    weights: WeightsPlace | None = None,
    threads: int | None = None,
    page: Mapping[str, Any] | None = None,
    options: LoadOptions = NO_OPTIONS,
) -> list[Path]:
    """Write a model as a library that runs without Python, and return the files.

    It is `Model.export` of a model that need not run here, so that nothing is compiled for this machine. `source` and
    `options` as `cenote.load_with` takes them, all others as `Model.export`; raises as both do.
    """
    with refusals("exporting a model"):
        source = _kept(source)
        if isinstance(source, str | os.PathLike) and PlanFile.at(source) is not None:
            raise ArgumentError(
                f"source: {source} is a plan file, which is for one machine; export its model"
            )
        made_from = StreamOrigin if hasattr(source, "read") else SourceOrigin
        origin = made_from(source, options, load_again)
        graph, interface = origin.imported()
        name = name or origin.name
        return export(
            graph.take(), options, folder, target, name, interface.metadata, shapes, weights, threads, page
        )


def _kept(source: Any) -> Any:
    """Return a copy of a source that the caller may change: memory and messages are read again later, for values inside
    of the model, for new sizes and for pickles."""
    if isinstance(source, bytearray | memoryview):
        return bytes(source)
    if not hasattr(source, "CopyFrom"):
        return source
    made = type(source)()
    made.CopyFrom(source)
    return made


def load_again(source: Any, content: str, options: LoadOptions) -> Model:
    """Load a source once more. `content`: the digest that its file must have; "" for any.

    Raises ModelError where the file has changed since, and as `load`.
    """
    if content and content_of(main_file(source)) not in (None, content):
        raise ModelError(f"{source} has changed since the model was pickled; load it, and pickle that")
    return load_with(source, options)


def unsupported(source: str | os.PathLike[str] | bytes) -> list[str]:
    """Return the features of a model that Cenote lacks, which keep it from being loaded: a line each, with its node.

    Raises ModelError for an invalid model, MissingFileError for a missing file.
    """
    with importing():
        from cenote.frontends.formats import unsupported as found

    return found(main_file(source))


def _start(source: Any) -> bytes:
    """Return the first 16 bytes of a model in memory or in a seekable file; b"" for other sources."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source[:16])
    with contextlib.suppress(AttributeError, OSError, ValueError):  # the front end says what is wrong
        if source.seekable():
            at = source.tell()
            try:
                start = source.read(16)
            finally:
                source.seek(at)
            return start if isinstance(start, bytes) else b""
    return b""


def _of_plan(file: PlanFile, options: LoadOptions) -> Model:
    """Return the model of a plan file. A stale or damaged one is compiled anew from its model, if that still exists."""
    try:
        stored = file.model(resolve_threads(options.threads))
    except (UnsupportedError, ModelError) as problem:
        return _compiled_anew(file, options, problem)
    shared = shared_under(options.of_plan(stored.options, file.path))
    model = Model.from_stored(stored, shared, PlanOrigin(file.path, options, load_again, stored.source))
    # Memory and outputs' types are there before the first run.
    for _, sized in reversed(() if options.shapes else stored.sized):
        _plan(model, sized.made_with)
    return model


def _plan(model: Model, shapes: Sequence[Sequence[int]]) -> None:
    """Compile a plan for inputs of these shapes, in order, if there is none."""
    model.plan_for({each.name: shape for each, shape in zip(model.inputs, shapes, strict=True)})


def _compiled_anew(file: PlanFile, options: LoadOptions, problem: CenoteError) -> Model:
    """Return the model that a plan file was made from, compiled as the plan was, and write the file anew.

    That model must be what it was, its weights included: a file that happens to lie at its path is not used.
    """
    recipe = file.recipe()
    if recipe is None or not os.path.isfile(source := recipe.source.path):
        raise problem
    if not recipe.source.is_still(source):
        raise type(problem)(
            f"{problem}; the model that it was made from, {source}, has changed since and is not used"
        ) from problem
    _log.info("%s; compiled anew from %s", problem, source)
    try:
        model = _with_algorithms(source, options.of_plan(recipe.options, file.path), problem)
    except UnsupportedError as refusal:  # without what compiles, or without an operator of the plan
        raise refusal.located(str(problem)) from problem
    with contextlib.suppress(CenoteError, OSError):  # a plan that cannot be written is only slower next time
        for shapes in recipe.shapes:
            _plan(model, shapes)
        model.save(file.path, source)
    return model


def _with_algorithms(source: str, options: LoadOptions, problem: CenoteError) -> Model:
    """Return the model of a plan, compiled anew with the plan's options.

    Algorithms that the caller or `cenote diagnose --apply` chose were measured where the plan was made: they are kept
    where they exist. A RuntimeWarning says so.
    """
    chosen, advice = options.algorithms, "measure here: cenote diagnose --apply"
    count = f"{len(chosen)} node(s) or operator(s)"
    try:
        model = load_with(source, options)
    except ArgumentError as error:
        if not chosen:
            raise
        text = f"{problem}; the algorithms that were chosen for {count} are not kept ({error}); {advice}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return load_with(source, options.changed(algorithms={}))
    if chosen:
        text = f"{problem}; the algorithms that were chosen for {count} there are kept; {advice}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return model
