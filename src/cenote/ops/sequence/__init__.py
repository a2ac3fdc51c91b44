"""Recurrent networks and attention."""
