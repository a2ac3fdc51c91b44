"""Comparison of a model's plan, value by value, with its operators' references and with another engine."""
