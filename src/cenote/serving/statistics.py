"""Statistics and configurations of models, in the form of Triton's extensions of the protocol, which perf_analyzer
reads."""

from __future__ import annotations

from typing import Any

from cenote.core.types import Declared
from cenote.serving.batcher import Counters
from cenote.serving.repository import Repository, Served
from cenote.serving.tensors import described


def statistics(repository: Repository, name: str = "", version: str = "") -> dict[str, Any]:
    """Return the counts and times of the loaded versions of a model, or of all models, since the server started:
    `inference_count` requests got outputs in `execution_count` runs; times are in nanoseconds, `compute_infer` counts
    runs."""
    counters = repository.counters()
    wanted = [
        served.key
        for served in repository.loaded()
        if name in ("", served.found.name) and version in ("", served.found.version)
    ]
    return {"model_stats": [_row(*key, counters.get(key, Counters())) for key in sorted(wanted)]}


def _row(name: str, version: str, counts: Counters) -> dict[str, Any]:
    waited, computed = (round(1e9 * x) for x in (counts.waited_seconds, counts.computed_seconds))
    none = {"count": 0, "ns": 0}
    return {
        "name": name,
        "version": version,
        "inference_count": counts.answered,
        "execution_count": counts.runs,
        "inference_stats": {
            "success": {"count": counts.answered, "ns": waited + computed},
            "fail": {"count": counts.failed, "ns": 0},
            "queue": {"count": counts.answered, "ns": waited},
            "compute_input": none,
            "compute_infer": {"count": counts.runs, "ns": computed},
            "compute_output": none,
        },
        "batch_stats": [],
    }


def configuration(served: Served) -> dict[str, Any]:
    """Return a model's configuration. Where requests are joined, `max_batch_size` is their limit and the sizes leave
    out the first axis; else it is 0."""
    batcher = served.batcher
    largest = batcher.max_batch if batcher.max_batch > 1 else 0
    sides = {"input": batcher.model.inputs, "output": getattr(batcher.model, "declared_outputs", ())}
    return {
        "name": served.found.name,
        "platform": "cenote",
        "backend": "cenote",
        "version_policy": served.found.policy.as_dict(),
        "max_batch_size": largest,
        **{side: [_tensor(each, bool(largest)) for each in tensors] for side, tensors in sides.items()},
        "instance_group": [{"name": served.found.name, "kind": "KIND_CPU", "count": batcher.workers}],
        **({"dynamic_batching": {}} if largest else {}),
    }


def _tensor(declared: Declared, joined: bool) -> dict[str, Any]:
    words = described(declared)
    kind = "STRING" if words["datatype"] == "BYTES" else words["datatype"]
    return {"name": words["name"], "data_type": f"TYPE_{kind}", "dims": words["shape"][1 if joined else 0 :]}
