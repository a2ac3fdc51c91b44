"""Execution of plans: cores with buffers of real bytes and clocks, and the loads, computations and stores of a plan."""
