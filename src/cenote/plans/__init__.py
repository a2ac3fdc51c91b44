"""Compiled models on disk: plan files, and the cache of models loaded before."""
