"""Profiles as JSON: what was written is read back, and what is no profile is refused."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from cenote.core.errors import ArgumentError
from cenote.profile.data import Profile
from cenote.profile.environment import Environment
from cenote.profile.fields import Accounts, ArenaBlock, Finding, Span, StepStats
from cenote.profile.roofs import Roofs
from tests.profile.samples import PROFILE, ROOFS


def test_a_profile_survives_json() -> None:
    text = json.dumps(PROFILE.to_dict(), allow_nan=False)
    assert Profile.from_dict(json.loads(text)) == PROFILE
    assert json.loads(text)["schema"] == "cenote.profile/1"


def test_the_schema_has_what_the_documentation_promises() -> None:
    data = PROFILE.to_dict()
    assert {"wall_ms", "accounts", "roofs", "environment", "steps", "findings"} <= data.keys()
    assert data["accounts"].keys() == {"kernels", "waits", "driver", "host", "python"}
    assert {
        "node", "op", "algorithm", "ms", "share", "busy_ms", "operations", "executed_operations", "bytes", "bound",
        "roof_share",
    } <= data["steps"][0].keys()  # fmt: skip
    assert data["findings"][0].keys() == {
        "cause", "steps", "share", "evidence", "confidence", "action", "gain_ms", "measured_gain_ms", "treatments",
    }  # fmt: skip
    assert data["environment"]["foreign_cores"] is None, "what is not known is null, not 0"


def test_numbers_that_json_has_no_word_for_are_null() -> None:
    assert replace(PROFILE, spread=math.nan).to_dict()["spread"] is None


def changed(path: str, value: Any) -> Any:
    data = json.loads(json.dumps(PROFILE.to_dict()))
    *way, last = path.split("/")
    inner = data
    for name in way:
        inner = inner[int(name) if name.isdigit() else name]
    inner[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("schema", "cenote.profile/9", "cenote.profile/9"),
        ("wall_ms", "fast", "wall_ms"),
        ("threads", 1.5, "threads"),
        ("threads", True, "threads"),
        ("steps", {}, "steps"),
        ("steps/0/kind", "magic", r"steps\[0\].kind"),
        ("steps/0/busy_ms", [1.0, None], "busy_ms"),
        ("accounts/host", None, "accounts.host"),
        ("environment/clock_ghz", [1.0], "clock_ghz"),
        ("findings/0/gain_ms", [1.0, 2.0], "gain_ms"),
        ("findings/0/treatments/0/weights", "int8", "weights"),
        ("findings/0/treatments/0/algorithms/a", 1, "algorithms"),
    ],
)
def test_what_is_no_profile_is_refused(path: str, value: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        Profile.from_dict(changed(path, value))


@pytest.mark.parametrize("data", [None, [], "text", {}, {"schema": "cenote.profile/1"}])
def test_other_json_is_refused(data: Any) -> None:
    with pytest.raises(ArgumentError):
        Profile.from_dict(data)


def test_later_versions_may_add_fields() -> None:
    assert Profile.from_dict({**PROFILE.to_dict(), "new": 1}) == PROFILE


def test_roofs_answer_for_counts_and_sizes_between_those_measured() -> None:
    assert ROOFS.gigaops("float32", 2) == 190.0
    assert ROOFS.gigaops("float32", 8) == 4 * 190.0
    assert ROOFS.gigaops("int8", 1) is None
    found = ROOFS.transfer_seconds(8000, 0, 1)
    assert found is not None
    assert found[1] == "L1"
    assert math.isclose(found[0], 8000 / 200e9)
    found = ROOFS.transfer_seconds(8 << 20, 8 << 20, 1)
    assert found is not None
    assert found[1] == "memory"
    # Of it may lie in the first cache; half read, half written is as fast as a copy.
    near = (1 << 15) / (16 << 20)
    assert math.isclose(found[0], (16 << 20) * (near / 100e9 + (1 - near) / 8e9))
    assert ROOFS.transfer_seconds(0, 0, 1) is None


def test_every_field_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "profile.md").read_text(encoding="utf-8")
    for kind in (Profile, Accounts, StepStats, Finding, Span, ArenaBlock, Environment, Roofs):
        section = text.split(f"### {kind.__name__}\n")[1].split("\n#")[0]
        assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [each.name for each in fields(kind)]
