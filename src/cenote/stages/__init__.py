"""Compiled parts of a model, by the shapes of their inputs, and what a model has planned."""
