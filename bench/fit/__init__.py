"""The constants of the cost model, fitted to measurements of layers that are drawn from a folder of models."""
