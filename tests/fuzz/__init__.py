"""Fuzzers: random cases of several kinds, each known again by its kind and seed. `python -m tests.fuzz --help`."""
