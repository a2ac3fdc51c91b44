"""Samples of every cause of lost time, planted and healthy, by the cause's name."""

from __future__ import annotations

from tests.diagnosis.causes.compute import COMPUTE
from tests.diagnosis.causes.memory import MEMORY
from tests.diagnosis.causes.sample import Pair
from tests.diagnosis.causes.schedule import SCHEDULE
from tests.diagnosis.causes.surroundings import SURROUNDINGS

SAMPLES: dict[str, Pair] = {**COMPUTE, **MEMORY, **SCHEDULE, **SURROUNDINGS}
