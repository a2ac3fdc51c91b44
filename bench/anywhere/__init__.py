"""Exported models: in a browser beside other engines there, and as C libraries beside the model in Python."""
