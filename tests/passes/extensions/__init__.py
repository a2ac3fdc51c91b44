"""Rewrites of users."""
