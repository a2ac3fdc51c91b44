"""Operators that reduce, rank or select along axes."""
