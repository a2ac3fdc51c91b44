"""Operators of learning: features of classical models, steps of optimisers."""
