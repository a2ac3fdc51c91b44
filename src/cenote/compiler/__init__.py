"""Compiler from a specialised graph to a program: schedule, memory, barriers, assembly, and descriptions of the
result."""
