"""Operators that move, select, repeat or make up elements."""
