"""Measures of how well a step uses the machine: of the processor's own counters, and of a model of the caches."""
