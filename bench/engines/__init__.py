"""The engines that are measured: one file per peer, all behind the protocol in `base`."""

from bench.engines.registry import MODEL_ENGINES, POOL_ENGINES, EngineSpec

__all__ = ["MODEL_ENGINES", "POOL_ENGINES", "EngineSpec"]
