"""Elementwise functions on arrays: recorded (`recorder`, `formulas`) and public (the other files)."""
