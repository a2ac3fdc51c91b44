"""KServe's protocol server for Cenote's models: requests become arrays, Cenote's errors become statuses.

This module is imported when a server starts: kserve is an optional dependency, and takes seconds to import.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import kserve
import numpy as np
import orjson
from kserve.errors import InvalidInput, ModelNotFound, ServerNotReady
from kserve.protocol.dataplane import DataPlane
from kserve.protocol.infer_type import InferInput, InferOutput, InferRequest, InferResponse, RequestedOutput
from kserve.protocol.model_repository_extension import ModelRepositoryExtension
from kserve.utils.numpy_codec import from_np_dtype
from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from cenote.core.errors import CapacityError, CenoteError, MissingFileError, UnavailableError, shown
from cenote.core.version import __version__
from cenote.serving.repository import Repository, Served, not_loaded
from cenote.serving.statistics import configuration, statistics
from cenote.serving.tensors import array_of, described
from cenote.serving.versions import parted

_LENGTH = "inference-header-content-length"
_NOT_THERE = ("classification", "shared_memory_region")
# Parameters of requests that would change what is done, by what to do instead.
_REFUSED = {
    "timeout": "give the client a time limit; --max-queue bounds the waiting",
    "priority": "requests are answered in the order of their arrival",
    "sequence_id": "models keep no state between requests",
}
# Of the histogram's buckets.
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Unavailable(ServerNotReady):  # type: ignore[misc]
    """Status 503, or UNAVAILABLE: no room for the request, or the model is not available now."""

    def __init__(self, reason: str) -> None:
        self.reason = self.error_msg = reason


class NotFoundError(ModelNotFound):  # type: ignore[misc]
    """Status 404, or NOT_FOUND."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def refused(error: CenoteError) -> Exception:
    """Return kserve's error for an error: 503 for lack of room or memory, 404 for a missing model, else 400."""
    if isinstance(error, UnavailableError | CapacityError):
        return Unavailable(str(error))
    return NotFoundError(str(error)) if isinstance(error, MissingFileError) else InvalidInput(str(error))


def refusal_of_parameters(names: Sequence[str]) -> str:
    """Return the message for parameters of a request to load."""
    return (
        f"loading takes no parameters ({', '.join(map(shown, names))}): a model is loaded from the server's folder, "
        "with the server's options"
    )


class CenoteModel(kserve.Model):  # type: ignore[misc]
    """A model of a repository, by name and version ("": the largest): what answers may be replaced while it is
    served."""

    def __init__(self, name: str, version: str, repository: Repository, latency: Histogram) -> None:
        super().__init__(name)
        self.version = version
        self.repository, self.latency = repository, latency
        self.ready = True

    @property
    def _served(self) -> Served:
        return self._at(self.version)

    def _at(self, version: str) -> Served:
        served = self.repository.get(self.name, version)
        if served is None:
            raise NotFoundError(not_loaded(self.name, version))
        return served

    async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> InferResponse:
        """Answer one request of the Open Inference Protocol."""
        if not isinstance(payload, InferRequest):
            raise InvalidInput(f"use version 2 of the protocol: POST v2/models/{self.name}/infer")
        served = self._at(self.version or payload.model_version or "")
        version = served.found.version
        for name, advice in _REFUSED.items():
            if (payload.parameters or {}).get(name):
                raise InvalidInput(f"the parameter {name} is not supported: {advice}")
        start = time.perf_counter()
        try:
            arrays = {}
            for each in payload.inputs:
                if each.name in arrays:
                    raise InvalidInput(f"input '{each.name}' is given twice")
                _check(each)
                arrays[each.name] = array_of(each.name, each.datatype, each.shape, each.data, each._raw_data)
            outputs = await asyncio.wrap_future(self.repository.submit(self.name, arrays, version))
        except CenoteError as error:
            raise refused(error) from error
        self.latency.labels(self.name, version).observe(time.perf_counter() - start)
        payload.model_name = self.name
        return _response(payload, version, outputs)

    def get_input_types(self) -> list[dict[str, Any]]:
        """Return the metadata of the inputs."""
        return [described(declared) for declared in self._served.batcher.model.inputs]

    def get_output_types(self) -> list[dict[str, Any]]:
        """Return the metadata of the outputs."""
        return [described(each) for each in getattr(self._served.batcher.model, "declared_outputs", ())]


def _check(tensor: Any) -> None:
    """Refuse parameters of Triton's extensions that would change the meaning of a tensor or the answer."""
    for name in _NOT_THERE:
        if name in (tensor.parameters or ()):
            raise InvalidInput(f"'{tensor.name}': the parameter {name} is not supported")


def _response(payload: InferRequest, version: str, outputs: Mapping[str, Any]) -> InferResponse:
    asked = payload.request_outputs or [RequestedOutput(name) for name in outputs]
    for each in asked:
        _check(each)
        if each.name not in outputs:
            there = ", ".join(outputs)
            raise InvalidInput(
                f"'{each.name}' is no output of model '{payload.model_name}'; there are: {there}"
            )
        if each.binary_data is None:
            # The request's choice for all its outputs.
            each._parameters = {**(each.parameters or {}), "binary_data": payload.use_binary_outputs}
    tensors = []
    for each in asked:
        array = np.asarray(outputs[each.name])
        if (datatype := from_np_dtype(array.dtype)) is None:
            raise InvalidInput(
                f"output '{each.name}' is {array.dtype}, which the protocol has no datatype for"
            )
        tensors.append(InferOutput(each.name, list(array.shape), datatype, data=array))
    return InferResponse(
        payload.id or str(uuid.uuid4()),
        payload.model_name,
        tensors,
        model_version=version,
        requested_outputs=asked,
    )


class Registry(kserve.ModelRepository):  # type: ignore[misc]
    """kserve's view of a repository."""

    def __init__(self, repository: Repository) -> None:
        super().__init__(str(repository.folder))
        self.repository = repository
        self.latency = Histogram(
            "cenote_request_seconds",
            "time from a request's tensors to its outputs, of requests that got outputs",
            ["model", "version"],
            buckets=_SECONDS,
            registry=None,
        )

    def get_model(self, name: str) -> CenoteModel | None:
        """Return the model, if it is loaded; `name` may be `addressed` with a version."""
        plain, version = parted(name)
        found = self.repository.get(plain, version)
        return CenoteModel(plain, version, self.repository, self.latency) if found else None

    def get_models(self) -> dict[str, CenoteModel]:
        """Return all loaded models."""
        names = dict.fromkeys(served.found.name for served in self.repository.loaded())
        return {name: CenoteModel(name, "", self.repository, self.latency) for name in names}


class Plane(DataPlane):  # type: ignore[misc]
    """Health, metadata, and requests that come over HTTP."""

    def __init__(self, registry: Registry) -> None:
        super().__init__(model_registry=registry)
        self.draining = False
        self._server_name, self._server_version = "cenote", __version__

    def served(self, name: str, version: str = "") -> Served | None:
        """Return the loaded model of this name, and of this version if one is named."""
        served: Served | None = self._model_registry.repository.get(name, version)
        return served

    def metadata(self) -> dict[str, Any]:
        """Return the server's name, version and extensions."""
        found = super().metadata()
        return {**found, "extensions": [*found.get("extensions", ()), "statistics", "model_configuration"]}

    def statistics(self, name: str = "") -> dict[str, Any]:
        """Return the counts and times of one loaded model, `addressed` with or without a version, or of all."""
        if name:
            self.get_model_from_registry(name)
        return statistics(self._model_registry.repository, *parted(name))

    def configuration(self, name: str) -> dict[str, Any]:
        """Return a loaded model's configuration."""
        return configuration(self.get_model_from_registry(name)._served)

    async def ready(self) -> bool:
        """Return False while the server shuts down, so that load balancers send requests elsewhere."""
        return not self.draining

    async def model_metadata(self, model_name: str) -> dict[str, Any]:
        """Return a model's inputs, outputs, platform and versions."""
        model = self.get_model_from_registry(model_name)
        metadata = {**await super().model_metadata(model_name), "platform": "cenote"}
        return {**metadata, "name": model.name, "versions": model.repository.versions(model.name)}

    def decode(self, body: Any, headers: Any, protocol_version: str = "", model_name: str = "") -> Any:
        """Return a request's parts. Binary tensors stay bytes: kserve's own decoder makes a list of numbers of each.
        `network` ensures that every body comes as bytes; otherwise pydantic would turn booleans and floats into whole
        numbers."""
        try:
            return _request(body, headers.get(_LENGTH), model_name), {}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(f"the request is malformed: {type(error).__name__}: {error}") from error


def _request(body: bytes, json_length: str | None, model: str) -> InferRequest:
    at = len(body) if json_length is None else int(json_length)
    if not 0 <= at <= len(body):
        raise ValueError(f"{_LENGTH} is {at}, the body has {len(body)} bytes")
    words = _of_kind(orjson.loads(body[:at]), dict)
    inputs = []
    for each in _of_kind(words["inputs"], list):
        one = InferInput(
            _of_kind(each["name"], str), each["shape"], each["datatype"], each.get("data"), _parameters(each)
        )
        if (size := one.parameters.get("binary_data_size")) is not None:
            if type(size) is not int or not 0 <= size <= len(body) - at:
                raise ValueError(
                    f"binary_data_size of '{one.name}' is {size}, {len(body) - at} bytes are left"
                )
            one._raw_data = body[at : at + size]
            at += size
        inputs.append(one)
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes are left over")
    asked = [
        RequestedOutput(_of_kind(each["name"], str), _parameters(each)) for each in words.get("outputs") or ()
    ]
    identity, version = (_of_kind(words.get(name) or "", str) for name in ("id", "model_version"))
    parameters = _parameters(words)
    return InferRequest(
        model, inputs, identity, parameters=parameters, request_outputs=asked or None, model_version=version
    )


def _parameters(words: Any) -> dict[str, Any]:
    """Return the parameters of a request, an input or an output; those that are boolean in the protocol must be so
    here."""
    parameters: dict[str, Any] = _of_kind(words.get("parameters") or {}, dict)
    for name in ("binary_data", "binary_data_output"):
        if name in parameters:
            _of_kind(parameters[name], bool)
    return parameters


def _of_kind(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{shown(value)} stands where a {kind.__name__} is due")
    return value


class Extension(ModelRepositoryExtension):  # type: ignore[misc]
    """Loading and unloading of models while other requests are answered."""

    async def index(self, filter_ready: bool | None = False) -> list[dict[str, str]]:
        """Return a row for each model in the folder."""
        rows = self._model_registry.repository.index()
        return [row for row in rows if row["state"] == "READY" or not filter_ready]

    async def load(self, model_name: str) -> dict[str, Any]:
        """Load a model from the folder, or reload it."""
        await self._apart(self._model_registry.repository.load, model_name)
        return {"name": model_name, "load": True}

    async def unload(self, model_name: str) -> dict[str, Any]:
        """Unload a model, once the requests that it has accepted are answered."""
        await self._apart(self._model_registry.repository.unload, model_name)
        return {"name": model_name, "unload": True}

    async def _apart(self, what: Any, name: str) -> None:
        try:
            await asyncio.to_thread(what, name)
        except CenoteError as error:
            raise refused(error) from error


class Metrics:
    """The counters of all models, collected whenever Prometheus asks. They go on when a model is loaded again."""

    def __init__(self, registry: Registry) -> None:
        self.repository, self.latency = registry.repository, registry.latency

    def collect(self) -> Iterator[Any]:
        """Yield one family for each counter, with one sample for each version of a model."""
        waiting = GaugeMetricFamily(
            "cenote_waiting_requests", "requests that wait for a worker", labels=["model", "version"]
        )
        for served in self.repository.loaded():
            waiting.add_metric(served.key, served.batcher.waiting)
        yield waiting
        counters = self.repository.counters()
        for field, meaning in _MEANINGS.items():
            family = CounterMetricFamily(f"cenote_{field}", meaning, labels=["model", "version"])
            for key, counts in counters.items():
                family.add_metric(key, getattr(counts, field))
            yield family
        yield from self.latency.collect()


_MEANINGS = {
    "accepted": "requests taken into the queue",
    "answered": "requests that got outputs",
    "failed": "requests that got an error of their own",
    "refused": "requests that met a full or closed queue",
    "runs": "runs of the model",
    "split": "runs of several requests that failed and were repeated one by one",
    "waited_seconds": "time in the queue, over all requests",
    "computed_seconds": "time in the model, over all runs",
}
