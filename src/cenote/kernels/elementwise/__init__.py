"""Kernels that compute on elements, rows and channels: functions, normalisation, reductions, resizing."""
