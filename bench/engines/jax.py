"""JAX on the CPU: pooling through `lax.reduce_window`, compiled. Threads follow the affinity."""

from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from bench.cases import PoolCase
from bench.engines.base import Arrays, PoolEngine, UnavailableError


class Pool(PoolEngine):
    """Pooling."""

    distribution = "jax"

    def load(self, work: PoolCase, threads: int) -> None:
        if work.indices or work.kind == "adaptive average":
            raise UnavailableError("jax has no such operator")
        jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]  # jax has no types here
        sample = jax.ShapeDtypeStruct(work.shape, jnp.float32)  # type: ignore[no-untyped-call]  # jax has no types here
        self.call = jax.jit(call_of(work)).lower(sample).compile()

    def adopt(self, x: np.ndarray) -> Any:
        return jax.device_put(x)

    def run(self, x: jax.Array) -> Any:
        return self.call(x).block_until_ready()

    def outputs(self, y: jax.Array) -> Arrays:
        return (np.asarray(y),)


def call_of(case: PoolCase) -> Any:
    """The function of one array that does what the case says."""
    if case.kind == "global average":
        return lambda x: x.mean(axis=tuple(range(2, x.ndim)), keepdims=True)
    window = (1, 1, *[case.kernel] * case.rank)
    strides = (1, 1, *[case.stride] * case.rank)
    padding = [(0, 0), (0, 0), *[(case.padding, case.padding)] * case.rank]
    if case.kind == "max":
        return lambda x: lax.reduce_window(x, -jnp.inf, lax.max, window, strides, padding)

    def average(x: jax.Array) -> Any:
        total = lax.reduce_window(x, 0.0, lax.add, window, strides, padding)
        if case.count_padding:
            return total / case.kernel**case.rank
        inside = jnp.ones((1, 1, *case.shape[2:]), x.dtype)
        return total / lax.reduce_window(inside, 0.0, lax.add, window, strides, padding)

    return average
