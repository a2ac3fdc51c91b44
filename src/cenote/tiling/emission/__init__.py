"""Plans written as programs: C with explicit buffers and copies, and the same structure as text."""
