"""Reductions: along rows, down columns, of many short rows at once."""
