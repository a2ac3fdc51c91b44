"""The engines that are measured: one file per peer, all behind the protocol in `base`."""

from bench.engines.registry import (
    BFLOAT_ENGINES,
    MODEL_ENGINES,
    OPEN_SIZE_ENGINES,
    POOL_ENGINES,
    EngineSpec,
)

__all__ = ["BFLOAT_ENGINES", "MODEL_ENGINES", "OPEN_SIZE_ENGINES", "POOL_ENGINES", "EngineSpec"]
