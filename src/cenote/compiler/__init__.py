"""From a specialised graph to a program: schedule, memory, barriers, assembly, and what is told about it."""
