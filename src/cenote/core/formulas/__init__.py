"""Formulas of sizes that are not known yet: their operations, their texts, and whether the two agree."""
