"""Formulas of sizes that are not known yet: their operations, their texts, and checks that the two agree."""
