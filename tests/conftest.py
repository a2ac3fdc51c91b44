"""What holds for all tests: models are compiled, not taken from the cache of plans of an earlier run, and formulas of
open sizes are checked.

Tests of the cache turn it on for themselves. Processes that tests start see the same.
"""

from __future__ import annotations

import os

os.environ["CENOTE_PLAN_CACHE"] = "0"
os.environ["CENOTE_CHECK_FORMULAS"] = "1"
