"""InferenceSession: onnxruntime's class to load and run a model, on a `cenote.Model`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from cenote.core.errors import CenoteError
from cenote.core.extensions.registry import operators_by_name
from cenote.models.loading import load
from cenote.models.model import Model
from cenote.ort import fallback, profile, sources
from cenote.ort.binding import IOBinding
from cenote.ort.errors import Fail, InvalidArgument, NoSuchFile, NotImplemented, OrtError, loading, of_run
from cenote.ort.feeds import Feeds
from cenote.ort.memory import OrtAllocatorType, OrtMemoryInfo, OrtMemType
from cenote.ort.options import RunOptions, SessionOptions
from cenote.ort.providers import (
    AVAILABLE,
    Providers,
    check_and_normalize_provider_args,
    get_available_providers,
    require_known,
)
from cenote.ort.types import ModelMetadata, NodeArg
from cenote.ort.values import OrtValue, OrtValueVector

_MOST_THREADS = 256


class InferenceSession:
    """A model, loaded and run like onnxruntime's class of this name. It may be called from several threads.

    `path_or_bytes`: path of an ONNX model (or of a plan file, `Model.save`), or its bytes. `sess_options`: see
    SessionOptions. `providers`, `provider_options`: checked; everything runs on the CPU. `fallback="onnxruntime"`: a
    model that Cenote refuses is run by onnxruntime itself, if it is installed, and a warning gives the reason. The
    default is the fallback of `cenote.ort.install`, else none. `operators={"domain.Operator": function}`: functions
    that compute nodes, as of `cenote.load`.

    Raises TypeError for another source, NoSuchFile, InvalidProtobuf for a file that is no model, InvalidGraph for a
    wrong model, NotImplemented for a correct one that Cenote cannot run.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Providers | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(path_or_bytes, str | os.PathLike):
            self._model_path: str | None = os.fspath(path_or_bytes)
            self._model_bytes: bytes | None = None
        elif isinstance(path_or_bytes, bytes):
            self._model_path, self._model_bytes = None, path_or_bytes
        else:
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        if self._model_path == "" or not isinstance(sess_options, SessionOptions | None):
            raise TypeError(
                f"InferenceSession takes a model's path or bytes and SessionOptions, not {path_or_bytes!r:.60} and "
                f"{sess_options!r:.60}"
            )
        self._enable_fallback = int(kwargs.get("enable_fallback", 1)) == 1
        self._fallback_providers = get_available_providers()
        self._sess_options_initial = sess_options
        self._sess_options = SessionOptions() if sess_options is None else sess_options
        self._other = fallback.chosen(kwargs.get("fallback"))
        given: dict[str, Any] = operators_by_name("operators", kwargs.get("operators", {}))
        self._operators = {**self._sess_options.operators, **given}
        self._real: fallback.RealSession | None = None
        self._take_providers_or_cpu(providers, provider_options)
        self._load()

    # ---- loading --------------------------------------------------------------------------------------------------

    def _take_providers_or_cpu(self, providers: Providers | None, options: Any) -> None:
        """Take the providers. For unknown or ill-formed ones print onnxruntime's message and continue with the
        CPU."""
        try:
            self.set_providers(providers, options)
        except (ValueError, RuntimeError) as error:
            if not self._enable_fallback:
                raise
            stars = 15 * "*"
            print(f"{stars} EP Error {stars}\nEP Error {error} when using {providers}")
            print(f"Falling back to {self._fallback_providers} and retrying.\n{40 * '*'}")
            self.set_providers(self._fallback_providers)

    def set_providers(
        self, providers: Providers | None = None, provider_options: Sequence[dict[Any, Any]] | None = None
    ) -> None:
        """Check the providers; the CPU's is used. Raises RuntimeError for one that onnxruntime does not know
        either."""
        names, _ = check_and_normalize_provider_args(providers, provider_options, get_available_providers())
        require_known(names)
        self._providers = [AVAILABLE]
        self._provider_options: dict[str, dict[str, str]] = {AVAILABLE: {}}

    def _load(self) -> None:
        name = self._model_path or "bytes"
        self._profile = profile.SessionProfile(
            self._sess_options.profile_file_prefix, self._sess_options.enable_profiling
        )
        try:
            with self._profile.event("session_initialization"), loading(name):
                self._model = self._loaded()
        except OrtError as error:
            if isinstance(error, NoSuchFile):
                raise
            self._hand_over(error)
            return
        self._describe(self._model)

    def _loaded(self) -> Model:
        options = self._sess_options
        source: Any = self._model_path if self._model_bytes is None else self._model_bytes
        sources.refuse_flatbuffers(source)
        source = sources.edited(source, options)
        threads = options.intra_op_num_threads
        flush = options.entries.get("session.set_denormal_as_zero") == "1"
        model = load(
            source,
            threads=min(threads, _MOST_THREADS) if threads > 0 else None,
            denormals="flush" if flush else None,
            operators=self._operators,
        )
        if options.optimized_model_filepath:
            sources.write(source, options)
        return model

    def _describe(self, model: Model) -> None:
        fixed = self._sess_options.by_name
        self._inputs_meta = [NodeArg.of(declared, fixed) for declared in model.inputs]
        self._outputs_meta = [NodeArg.of(declared, fixed) for declared in model.declared_outputs]
        self._model_meta = ModelMetadata(model.about, model.metadata)
        self._feeds = Feeds(model.inputs, self._inputs_meta)
        self._indices = {node.name: index for index, node in enumerate(self._outputs_meta)}

    def _hand_over(self, refusal: OrtError) -> None:
        """Hand the model to the engine of `fallback`. Raises the refusal where there is none."""
        if self._other is None:
            raise refusal
        source = self._model_path or self._model_bytes
        assert source is not None
        self._real = real = fallback.session(source, self._sess_options, refusal)
        self._inputs_meta, self._outputs_meta, self._model_meta = real.inputs, real.outputs, real.metadata

    # ---- description ----------------------------------------------------------------------------------------------

    def get_inputs(self) -> list[NodeArg]:
        """Return the name, type and shape of each input."""
        return self._inputs_meta

    def get_outputs(self) -> list[NodeArg]:
        """Return the name, type and shape of each output, as far as the model declares them."""
        return self._outputs_meta

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return none: the model's weights are part of its plan (SessionOptions.add_initializer replaces them at
        load)."""
        return []

    def get_modelmeta(self) -> ModelMetadata:
        """Return the metadata in the model's file."""
        return self._model_meta

    def get_session_options(self) -> SessionOptions:
        """Return the options that the session was made with."""
        return self._sess_options

    def get_providers(self) -> list[str]:
        """Return ["CPUExecutionProvider"]."""
        return self._providers

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return the options of the CPU provider: none."""
        return self._provider_options

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Return the kind of memory of each input: ordinary memory."""
        return [_memory() for _ in self._inputs_meta]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Return the kind of memory of each output: ordinary memory."""
        return [_memory() for _ in self._outputs_meta]

    @property
    def _sess(self) -> InnerSession:
        return InnerSession(self)

    def enable_fallback(self) -> None:
        """Replace unknown providers by the CPU's."""
        self._enable_fallback = True

    def disable_fallback(self) -> None:
        """Raise errors for unknown providers."""
        self._enable_fallback = False

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "cannot pickle 'InferenceSession' object; a class of your own may keep its path (__getstate__), and a "
            "cenote.Model can be pickled"
        )

    # ---- running --------------------------------------------------------------------------------------------------

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Return the outputs of these names in their order, all of them for None or none; sequences are lists of
        arrays.

        An input is an array, nested lists, or an OrtValue. Raises ValueError for a missing input, InvalidArgument for
        an unknown name and for an array that does not fit, RuntimeError for a value that is no array, Fail for a run
        that fails.
        """
        if self._real is not None:
            return self._real.run(output_names, input_feed, run_options)
        if run_options is not None:
            _check(run_options)
        arrays = self._feeds.arrays(input_feed)
        wanted = range(len(self._outputs_meta)) if output_names is None else self._positions(output_names)
        try:
            if self._profile.on:
                with self._profile.event("model_run"):
                    results = self._model(*arrays)
            else:
                results = self._model(*arrays)
        except CenoteError as error:
            return self._rescued(of_run(error), error, output_names, input_feed, run_options)
        if len(self._outputs_meta) == 1:
            results = (results,)
        return [results[index] for index in wanted]

    def _positions(self, names: Sequence[str]) -> Sequence[int]:
        if (
            isinstance(names, str)
            or not isinstance(names, Sequence | np.ndarray)
            or not all(isinstance(name, str) for name in names)
        ):
            raise TypeError(f"run(): output_names is None or a sequence of str, not {names!r}")
        if not len(names):
            return range(len(self._outputs_meta))
        for name in names:
            if name not in self._indices:
                raise InvalidArgument(f"Invalid output name:{name}")
        return [self._indices[name] for name in names]

    def _rescued(self, failure: OrtError, cause: CenoteError, *arguments: Any) -> list[Any]:
        """Return the fallback's results where a run shows that Cenote cannot run the model; else raise the
        failure."""
        if not isinstance(failure, NotImplemented) or self._other is None:
            raise failure from cause
        self._hand_over(failure)
        return self.run(*arguments)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Run as `run` does, with OrtValues as inputs and outputs."""
        return [OrtValue.of(value) for value in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self) -> IOBinding:
        """Return an object to bind inputs and outputs to."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run on the bound inputs and outputs."""
        iobinding.run(run_options)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], Any],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run on another thread, which then calls `callback(results, user_data, error)`; `error` is "" without an
        error."""

        def work() -> None:
            results: list[Any] = []
            message = ""
            try:
                results = self.run(output_names, input_feed, run_options)
            except Exception as error:
                message = str(error)
            callback(results, user_data, message)

        threading.Thread(target=work, daemon=True).start()

    def end_profiling(self) -> str:
        """Write the recorded events (SessionOptions.enable_profiling) and return the file's name; "" where there are
        none."""
        return self._profile.end()

    def get_profiling_start_time_ns(self) -> int:
        """Return the time at which recording began, in nanoseconds of time.monotonic_ns."""
        return self._profile.start


class InnerSession:
    """The inner object of onnxruntime's InferenceSession, for programs that use it: arguments in another order."""

    def __init__(self, session: InferenceSession) -> None:
        self.session = session
        self.inputs_meta, self.outputs_meta = session.get_inputs(), session.get_outputs()
        self.model_meta, self.session_options = session.get_modelmeta(), session.get_session_options()
        self.get_inputs, self.get_providers = session.get_inputs, session.get_providers
        self.run = session.run

    def run_with_ort_values(
        self, feed: Mapping[str, OrtValue], names: Sequence[str], options: RunOptions | None = None
    ) -> OrtValueVector:
        """Run as InferenceSession's method does."""
        return OrtValueVector(self.session.run_with_ort_values(names, feed, options))

    def run_with_iobinding(self, binding: IOBinding, options: RunOptions | None = None) -> None:
        """Run as InferenceSession's method does."""
        binding.run(options)


def _memory() -> OrtMemoryInfo:
    return OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0, OrtMemType.DEFAULT)


def _check(options: Any) -> None:
    if not isinstance(options, RunOptions):
        raise TypeError(f"run(): run_options is RunOptions or None, not {options!r}")
    if options.terminate:
        raise Fail("Exiting due to terminate flag being set to true.")


Session = InferenceSession
