"""Operators that compute each element from those at its place."""
