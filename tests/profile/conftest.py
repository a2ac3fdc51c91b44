"""Profiles in tests are compared with roofs that are given, not measured: that would take a second."""

from __future__ import annotations

import pytest

from tests.profile.samples import ROOFS


@pytest.fixture(autouse=True)
def given_roofs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cenote.profile.measure.roofs", lambda threads: ROOFS)
    monkeypatch.setattr("cenote.profile.measure.clock_ghz", lambda: 3.0)
