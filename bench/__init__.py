"""Benchmarks: Cenote and its peers, each engine in a process of its own, measured round-robin."""
