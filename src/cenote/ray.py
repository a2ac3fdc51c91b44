"""Cenote on Ray: batches of Ray Data, and a deployment of Ray Serve.

    from cenote.ray import Predictor, deployment

    answers = ray.data.read_parquet("pictures").map_batches(
        Predictor,
        fn_constructor_kwargs={"model": "model.cenote", "columns": {"x": "picture"}, "keep": ["id"]},
        batch_size=32, num_cpus=1, compute=ray.data.ActorPoolStrategy(size=2),
    )
    serve.run(deployment("model.cenote", num_replicas=2))

Every worker loads the model itself, so its path must exist on every machine (a shared folder, or the image of the
container). A plan file that was made for another CPU is compiled anew from the model that it names, if that file is
there unchanged.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError, InputError, needed
from cenote.core.types import Array
from cenote.models.loading import load


class Predictor:
    """A model over batches that are dicts of arrays: a class for `map_batches` of Ray Data.

    `model` is the path of a model or a plan file, `options` those of `cenote.load`. `columns`: the column of each
    input, by the input's name; by default the column of that name, or the only column for a model with one input. Rows
    are the first axis of every array. `outputs`: the name of the column for each output that is wanted; by default
    every output, under its own name. `keep`: columns that are passed on as they are (an identifier).

    `threads` is 1 by default: Ray starts a worker for each CPU that it is given (`num_cpus`).

    Object columns of arrays (pictures that Ray kept one by one) are stacked where they have one size. Floats are cast
    to the dtype of an input of floats, integers to one of their kind; everything else is refused with InputError.
    Raises ArgumentError for names that the model does not have, and the errors of `cenote.load`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        columns: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
        keep: Iterable[str] = (),
        threads: int = 1,
        **options: Any,
    ) -> None:
        self.model = load(model, threads=threads, **options)
        inputs = {declared.name for declared in self.model.inputs}
        self.columns = dict(columns or {})
        self.outputs = dict(outputs or {name: name for name in self.model.output_names})
        self.keep = tuple(keep)
        for name in [
            *sorted(self.columns.keys() - inputs),
            *sorted(self.outputs.keys() - {*self.model.output_names}),
        ]:
            raise ArgumentError(
                f"{name!r} is no input or output of {self.model!r}: columns names inputs, outputs names outputs"
            )
        if both := {*self.keep} & {*self.outputs.values()}:
            raise ArgumentError(
                f"the columns {sorted(both)} are kept and would be outputs too; name the outputs otherwise"
            )

    def __call__(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs of a batch, and the columns that are kept. A batch of no rows gives outputs of none."""
        feed = {each.name: self._column(batch, each.name, each.dtype) for each in self.model.inputs}
        rows = {name: len(array) for name, array in feed.items()}
        if len({*rows.values()}) > 1:
            raise InputError(f"the columns differ in rows: {rows}")
        answers = self.model.run(feed)
        count = next(iter(rows.values()), 0)
        result = {name: self._asked(batch, name) for name in self.keep}
        for name, column in self.outputs.items():
            if np.ndim(answers[name]) == 0 or len(answers[name]) != count:
                raise InputError(
                    f"output {name!r} has shape {list(np.shape(answers[name]))} for {count} rows: not one each"
                )
            result[column] = answers[name]
        return result

    def _column(self, batch: Mapping[str, Array], name: str, dtype: np.dtype[Any]) -> Array:
        column = self.columns.get(name, name)
        if column not in batch and len(self.model.inputs) == len(batch) == 1:
            column = next(iter(batch))
        array = self._asked(batch, column)
        if array.dtype == object:
            try:
                array = np.stack([np.asarray(item) for item in array])
            except ValueError as error:
                raise InputError(
                    f"the column {column!r} holds arrays of several sizes ({error}); make them one size"
                ) from None
        if (
            array.dtype != dtype
            and array.dtype.kind == dtype.kind
            and np.can_cast(array.dtype, dtype, "same_kind")
        ):
            return array.astype(dtype)
        return array

    def _asked(self, batch: Mapping[str, Array], column: str) -> Array:
        if column not in batch:
            raise InputError(f"there is no column {column!r}; the batch has {sorted(batch)}")
        return np.asarray(batch[column])


class Service:
    """A replica of Ray Serve: a model that answers requests; see `deployment`."""

    def __init__(self, model: str | os.PathLike[str], **options: Any) -> None:
        self._predictor = Predictor(model, **options)

    def predict(self, batch: Mapping[str, Any]) -> dict[str, Array]:
        """Answer a call by handle, `handle.predict.remote({"x": array})`: a batch of columns as for `Predictor`."""
        arrays = {name: np.asarray(value) for name, value in batch.items()}
        return self._predictor(arrays)

    async def __call__(self, request: Any) -> Any:
        """Answer HTTP: JSON {"x": nested lists} in, the outputs as nested lists out; status 400 for inputs that do
        not fit."""
        responses = needed("starlette.responses", "an answer by HTTP", "pip install 'ray[data,serve]'")
        inputs = {each.name: each.dtype for each in self._predictor.model.inputs}
        try:
            content = await request.json()
            batch = {name: np.asarray(value, inputs.get(name)) for name, value in content.items()}
            # In a thread, so that the replica goes on answering health checks.
            answers = await asyncio.to_thread(self.predict, batch)
            return {name: array.tolist() for name, array in answers.items()}
        except (ValueError, TypeError, AttributeError) as error:
            # JSON's errors are ValueErrors, as InputError is.
            return responses.JSONResponse({"error": str(error)}, status_code=400)


def deployment(
    model: str | os.PathLike[str], *, options: Mapping[str, Any] | None = None, **ray_options: Any
) -> Any:
    """Return an application for `serve.run`: replicas that answer by handle (`predict`) and by HTTP with JSON.

    `options` are those of `Predictor`; `ray_options` those of Ray Serve's deployments (`num_replicas`,
    `ray_actor_options`, `max_ongoing_requests`, …). Raises MissingPackageError without Ray Serve.
    """
    serve = needed("ray.serve", "a deployment", "pip install 'ray[data,serve]'")
    return serve.deployment(**ray_options)(Service).bind(os.fspath(model), **(options or {}))
