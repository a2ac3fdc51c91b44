"""The way of a call: which of a function's algorithms it takes, and why."""
