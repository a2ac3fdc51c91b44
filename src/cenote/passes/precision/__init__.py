"""Passes that change the types in which a graph computes and keeps its values."""
