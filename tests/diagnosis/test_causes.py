"""Each rule on a profile like that of its planted sample, and on one like that of its healthy twin."""

from __future__ import annotations

import inspect
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cenote.core.errors import UnsupportedError
from cenote.diagnosis.diagnose import diagnose
from cenote.diagnosis.registry import CAUSES
from cenote.profile.fields import Rival
from cenote.runtime import threads
from tests.diagnosis.profiles import GAIN, INPUTS, NO_GAIN, FakeModel, Known, profile, step

LOOK = {cause.name: cause.look for cause in CAUSES}
AT_FMA: dict[str, Any] = {"bound": "fma", "roof_share": 0.9, "operations": 100, "executed_operations": 100}
TWO: dict[str, Any] = {"threads": 2}
CONV = step(**AT_FMA)
MET = step(denormals=1.0, **AT_FMA)
UNEVEN: dict[str, Any] = {"kernels_ms": 6.0, "waits_ms": 2.0}
SLOWER = step(estimate_ms=4.0, rivals=(Rival("winograd_f4", 1.0),))
CHOSEN = step(estimate_ms=1.0, rivals=(Rival("direct", 1.5),))
READS: dict[str, Any] = {"op": "gemm", "bound": "memory", "roof_share": 0.9, "operations": 2000}
MOVES: dict[str, Any] = {
    "op": "add",
    "bound": "memory",
    "roof_share": 0.9,
    "read_bytes": 2000,
    "written_bytes": 1000,
}


def depthwise(**others: Any) -> Any:
    return step(**{**AT_FMA, "bound": "L2", "roof_share": 0.8, **others})


def faults(count: int) -> dict[str, Any]:
    return {"environment": {"minor_faults": count}}


PLANTED = {
    "fma": Known(profile(CONV, precision="exact"), {"precision": GAIN}),
    "algorithm": Known(profile(SLOWER), {"algorithms": GAIN}),
    "mischoice": Known(profile(CHOSEN), {"algorithms": GAIN}),
    "dilation": Known(profile(step(op="conv(pads=((2,2),(2,2)), dilations=(2,2))"))),
    "DRAM weights": Known(profile(step(**READS, read_bytes=4000, written_bytes=10))),
    "DRAM maps": Known(profile(step(**MOVES, bytes=3000))),
    "cache": Known(profile(depthwise(bytes=100))),
    "lanes": Known(profile(step(**{**AT_FMA, "executed_operations": 1600}))),
    "host": Known(profile(step(kind="host", op="det", reason="det has no kernel"))),
    "dtype": Known(profile(step(kind="host", reason="conv has no kernel for these inputs or attributes (f64)"))),
    "reorder": Known(profile(step(op="transpose(order=(0,2,3,1))"))),
    "unfused": Known(profile(CONV, step(0.3, op="relu", bound="L2", roof_share=0.8))),
    "imbalance": Known(profile(step(items=3, busy_ms=(6.0, 6.0), **UNEVEN), **TWO)),
    "serial": Known(profile(step(items=1, busy_ms=(4.5, 4.5), waits_ms=4.5), **TWO)),
    "barrier": Known(profile(accounts={"driver": 4.0}, **TWO), {"threads": GAIN}),
    "oversubscribed": Known(profile(threads=4), {"threads": GAIN}),
    "pinned": Known(profile(environment={"cpus": 1}, **TWO), {"threads": GAIN}),
    "foreign": Known(profile(environment={"foreign_cores": 1.5}, **TWO)),
    "throttled": Known(profile(environment={"throttled_periods": 12, "throttled_ms": 900.0, "quota_cores": 0.5})),
    "contention": Known(profile(accounts={"python": 6.0}, **TWO)),
    "faults": Known(profile(**faults(20 * 90)), {"kept": GAIN}),
    "cold": Known(profile(), {"hot": GAIN}),
    "denormals": Known(profile(MET), {"denormals": GAIN}),
    "input": Known(profile(), {"inputs": GAIN}, inputs={"x": np.asfortranarray(INPUTS["x"])}),
    "start": Known(profile()),
    "woken": Known(profile(**TWO), {"hot": GAIN}),
}  # fmt: skip
PLANTED["woken"].rests = True
PLANTED["contention"].taken = 0.9
HEALTHY: dict[str, list[Known]] = {
    "fma": [Known(profile(CONV), {"precision": GAIN}), Known(profile(CONV, precision="exact"), {"precision": NO_GAIN}),
            Known(profile(step(**{**AT_FMA, "roof_share": 0.3}), precision="exact"), {"precision": GAIN})],
    "algorithm": [Known(profile(CHOSEN), {"algorithms": GAIN}), Known(profile(SLOWER), {"algorithms": NO_GAIN})],
    "mischoice": [Known(profile(CHOSEN), {"algorithms": NO_GAIN}), Known(profile(SLOWER), {"algorithms": GAIN}),
                  Known(profile(step(estimate_ms=1.0, rivals=(Rival("direct", 3.0),))), {"algorithms": GAIN})],
    "dilation": [Known(profile(CONV)), Known(profile(step(op="conv(dilations=(1,1))"))),
                 Known(profile(step(op="conv(dilations=(1,16))")), {"rewrites": NO_GAIN})],
    "DRAM weights": [Known(profile(step(**{**READS, "bound": "fma"}, read_bytes=4000, written_bytes=10)))],
    "DRAM maps": [Known(profile(step(**{**MOVES, "bound": "L2"}, bytes=3000)))],
    "cache": [Known(profile(CONV))],
    "lanes": [Known(profile(CONV)), Known(profile(step(0.04, **{**AT_FMA, "executed_operations": 1600})))],
    "host": [Known(profile(CONV)), PLANTED["dtype"]],
    "dtype": [Known(profile(CONV)), PLANTED["host"]],
    "reorder": [Known(profile(step(op="softmax(axis=3)")))],
    "unfused": [Known(profile(CONV)), Known(profile(step(op="relu"), CONV))],
    "imbalance": [Known(profile(step(items=16, busy_ms=(8.0, 4.0), **UNEVEN), **TWO)),
                  Known(profile(step(items=3, busy_ms=(6.0, 6.0)), **TWO)), PLANTED["serial"]],
    "serial": [Known(profile(step(items=16, busy_ms=(5.0, 4.0)), **TWO)), Known(profile(step(items=1)))],
    "barrier": [Known(profile(accounts={"driver": 0.4}, **TWO), {"threads": GAIN}), PLANTED["oversubscribed"],
                Known(profile(accounts={"waits": 4.0}, environment={"foreign_cores": 1.5}, **TWO), {"threads": GAIN}),
                Known(profile(accounts={"driver": 4.0}, **TWO), {"threads": NO_GAIN})],
    "oversubscribed": [Known(profile(**TWO), {"threads": GAIN}), PLANTED["pinned"],
                       Known(profile(threads=4, environment={"run_queue_ms": 3.0}), {"threads": NO_GAIN})],
    "pinned": [Known(profile(**TWO), {"threads": GAIN})],
    "foreign": [Known(profile(**TWO)), Known(profile(environment={"foreign_cores": 0.9}))],
    "throttled": [Known(profile()), Known(profile(environment={"throttled_periods": 0, "throttled_ms": 0.0}))],
    "contention": [Known(profile(accounts={"python": 0.2}, **TWO)), Known(profile(accounts={"python": 6.0}, **TWO))],
    "faults": [Known(profile(**faults(10)), {"kept": GAIN}), Known(profile(**faults(20 * 90)), {"kept": NO_GAIN}),
               Known(profile(**faults(20 * 90)))],
    "cold": [Known(profile()), Known(profile(), {"hot": NO_GAIN}), PLANTED["woken"]],
    "denormals": [Known(profile(MET), {"denormals": NO_GAIN}), Known(profile(MET)),
                  Known(profile(replace(MET, denormals=0.0)), {"denormals": GAIN})],
    "input": [Known(profile(), {"inputs": GAIN})],
    "start": [Known(profile())],
    "woken": [PLANTED["cold"], Known(profile(**TWO), {"hot": NO_GAIN})],
}  # fmt: skip


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the plant of `start` has it."""
    monkeypatch.setenv("CENOTE_CACHE", "off")


def test_every_cause_has_a_short_rule_and_profiles() -> None:
    assert len({cause.rule for cause in CAUSES}) == len(CAUSES)
    for cause in CAUSES:
        assert len(inspect.getsource(cause.rule).splitlines()) <= 35, cause.name
    assert list(PLANTED) == list(HEALTHY) == [cause.name for cause in CAUSES]


@pytest.mark.parametrize("name", [name for name in PLANTED if name != "start"])
def test_what_is_planted_is_found(name: str) -> None:
    found = LOOK[name](PLANTED[name])
    assert found is not None
    assert found.cause == name
    assert found.evidence
    assert found.action
    assert all(str(each) in found.action for each in found.treatments[:1]), "words follow the treatment"
    assert 0 < found.confidence <= 1
    assert 0.05 <= found.share <= 1
    if found.gain_ms is not None:
        low, middle, high = found.gain_ms
        assert low <= middle <= high <= 10


def test_which_causes_can_be_treated() -> None:
    treated = {name for name in PLANTED if name != "start" and LOOK[name](PLANTED[name]).treatments}  # type: ignore[union-attr]
    assert treated == {
        "fma", "algorithm", "mischoice", "dilation", "DRAM weights", "dtype", "barrier", "oversubscribed", "pinned",
        "throttled", "contention", "denormals", "cache",
    }  # fmt: skip


def test_a_start_without_cache_is_found(no_cache: None) -> None:
    found = LOOK["start"](PLANTED["start"])
    assert found is not None
    assert found.share == 0, "a call's latency does not suffer"


@pytest.mark.parametrize(
    ("name", "context"), [(name, context) for name, contexts in HEALTHY.items() for context in contexts]
)
def test_what_is_well_is_left_alone(name: str, context: Known) -> None:
    assert LOOK[name](context) is None


def test_a_team_is_taken_while_a_run_is_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = SimpleNamespace(runner=1), SimpleNamespace(runner=0)
    first.family = second.family = [first]
    monkeypatch.setattr(threads, "_teams", {2: first})
    monkeypatch.setattr(threads, "physical_cores", lambda: 2)
    assert threads.teams_are_taken(2)
    assert not threads.teams_are_taken(3)
    first.family.append(second)
    assert not threads.teams_are_taken(2), "one is at rest"
    first.family.pop()
    monkeypatch.setattr(threads, "physical_cores", lambda: 4)
    assert not threads.teams_are_taken(2), "there are cores for another"


def test_what_nothing_explains_is_said_and_not_invented() -> None:
    slow = step(**{**AT_FMA, "roof_share": 0.2})
    # What the first cache of `ROOFS` (32 KB) gives is four times as fast as what lies behind it.
    between_caches = {
        "bound": "L1",
        "roof_share": 0.3,
        "read_bytes": 30 << 10,
        "busy_ms": (0.5e-3,),
        "operations": 0,
    }
    findings = diagnose(_Silent(), INPUTS, measured=profile(slow)).findings
    assert [finding.cause for finding in findings] == ["unexplained"]
    assert findings[0].confidence == 0
    assert findings[0].gain_ms is None
    for quiet in (
        profile(CONV),
        profile(step(0.09, **{**AT_FMA, "roof_share": 0.2})),
        profile(slow, environment={"foreign_cores": 0.5}),
        profile(replace(slow, blocks_ms=(3.0,))),  # in its fastest call it reached 60 % of the roof
        profile(replace(slow, ms=0.01)),
        profile(replace(slow, **between_caches)),
    ):
        assert not diagnose(_Silent(), INPUTS, measured=quiet).findings


class _Silent(FakeModel):
    """A model of which only the inputs are asked."""

    def changed(self, **options: Any) -> Any:
        raise UnsupportedError("it is not a model")


def test_threads_that_wait_for_a_core_are_too_many_even_where_the_middle_call_is_as_fast() -> None:
    found = LOOK["oversubscribed"](
        Known(profile(threads=4, environment={"run_queue_ms": 1500.0}), {"threads": NO_GAIN})
    )
    assert found is not None
    assert found.share >= 0.05
