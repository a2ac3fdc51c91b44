"""The cause "start": every process compiles anew, because nothing is cached."""

from __future__ import annotations

from cenote.codegen import cache
from cenote.core import settings
from cenote.diagnosis.cause import Cause
from cenote.diagnosis.context import Context
from cenote.profile.data import Finding


def look(context: Context) -> Finding | None:
    """Check whether there is a cache. Without one a call's latency does not suffer, but each start does."""
    problem = "the cache is off" if settings.cache_folder() is None else cache.problem()
    if not problem:
        return None
    return Finding(
        "start",
        (),
        0.0,
        f"{problem}: each process compiles this model's kernels anew",
        0.95,
        "a cache that can be written (CENOTE_CACHE), or a plan file (`model.save`)",
    )


CAUSE = Cause("start", look)
