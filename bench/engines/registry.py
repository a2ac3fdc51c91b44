"""Which engines there are. Importing this imports no engine: only a worker process may do that."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineSpec:
    """How to find an engine, and what its process needs before the engine is imported."""

    name: str
    module: str
    class_name: str
    # Converts the model to its own format first, in a process of its own that is not measured.
    prepares: bool = False
    # Has no thread argument; its process is confined to as many cores as it may have threads.
    pin: bool = False
    # Left out unless asked for by name.
    optional: bool = False
    # Cenote out of the checkout that the environment variable CENOTE_BEFORE names: what a change did to its speed.
    before: bool = False


def by_name(*specs: EngineSpec) -> dict[str, EngineSpec]:
    """The specs as a table, in the given order, which is also that of the report's columns."""
    return {spec.name: spec for spec in specs}


MODEL_ENGINES = by_name(
    EngineSpec("cenote", "bench.engines.cenote", "FastModel", prepares=True),
    EngineSpec("cenote_exact", "bench.engines.cenote", "ExactModel", prepares=True, optional=True),
    EngineSpec("before", "bench.engines.cenote", "FastModel", prepares=True, optional=True, before=True),
    EngineSpec("onnxruntime", "bench.engines.onnxruntime", "Model"),
    EngineSpec("openvino", "bench.engines.openvino", "Model"),
    EngineSpec("torch", "bench.engines.torch", "Model"),
    EngineSpec("torch_compile", "bench.engines.torch", "CompiledModel", optional=True),
    EngineSpec("ncnn", "bench.engines.ncnn", "Model", prepares=True),
    EngineSpec("mnn", "bench.engines.mnn", "Model", prepares=True),
    EngineSpec("litert", "bench.engines.litert", "Model"),
)

# Given files of open sizes; "cenote_fixed" takes the one of the same network whose size is fixed.
OPEN_SIZE_ENGINES = by_name(
    EngineSpec("cenote", "bench.engines.cenote", "FastModel"),
    EngineSpec("cenote_fixed", "bench.engines.cenote", "FixedSizeModel"),
    EngineSpec("onnxruntime", "bench.engines.onnxruntime", "Model"),
)

BFLOAT_ENGINES = by_name(
    EngineSpec("cenote", "bench.engines.cenote", "BfloatModel", prepares=True),
    EngineSpec("cenote_float32", "bench.engines.cenote", "FastModel", prepares=True),
    EngineSpec("before", "bench.engines.cenote", "BfloatModel", prepares=True, optional=True, before=True),
    EngineSpec("openvino", "bench.engines.openvino", "BfloatModel"),
)

POOL_ENGINES = by_name(
    EngineSpec("cenote", "bench.engines.cenote", "Pool"),
    EngineSpec("before", "bench.engines.cenote", "Pool", optional=True, before=True),
    EngineSpec("onnxruntime", "bench.engines.onnxruntime", "Pool"),
    EngineSpec("openvino", "bench.engines.openvino", "Pool"),
    EngineSpec("torch", "bench.engines.torch", "Pool"),
    EngineSpec("torch_channels_last", "bench.engines.torch", "ChannelsLastPool"),
    EngineSpec("jax", "bench.engines.jax", "Pool", pin=True),
    EngineSpec("scipy", "bench.engines.scipy", "Pool"),
)

OPERATOR_ENGINES = by_name(
    EngineSpec("cenote", "bench.engines.operator", "Cenote"),
    EngineSpec("before", "bench.engines.operator", "Cenote", optional=True, before=True),
    EngineSpec("numpy", "bench.engines.operator", "Numpy"),
    EngineSpec("torch", "bench.engines.operator", "Torch"),
    EngineSpec("onnxruntime", "bench.engines.operator", "Onnxruntime"),
)
