"""Every process compiles anew, because nothing is kept."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from cenote.codegen import cache
from cenote.core import settings
from cenote.diagnosis.cause import Cause, Sample
from cenote.diagnosis.context import Context
from cenote.diagnosis.samples import convolution
from cenote.profile.data import Finding


def look(context: Context) -> Finding | None:
    """Whether there is a cache; a call's latency does not suffer, each start does."""
    problem = "the cache is off" if settings.cache_folder() is None else cache.problem()
    if not problem:
        return None
    return Finding(
        "start", (), 0.0, f"{problem}: each process compiles this model's kernels anew",
        0.95, "a cache that can be written (CENOTE_CACHE), or a plan file (`model.save`)",
    )  # fmt: skip


@contextlib.contextmanager
def _without_cache() -> Iterator[None]:
    before = os.environ.get("CENOTE_CACHE")
    os.environ["CENOTE_CACHE"] = "off"
    try:
        yield
    finally:
        if before is None:
            del os.environ["CENOTE_CACHE"]
        else:
            os.environ["CENOTE_CACHE"] = before


def planted() -> Sample:
    model, inputs = convolution(32, 32, 56)
    return Sample(model, inputs, around=_without_cache)


def healthy() -> Sample:
    model, inputs = convolution(32, 32, 56)
    return Sample(model, inputs)


CAUSE = Cause("start", look, planted, healthy)
