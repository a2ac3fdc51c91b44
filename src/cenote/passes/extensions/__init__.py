"""Rewrites of users: patterns, and the passes that they make."""
