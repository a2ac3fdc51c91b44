"""Post-training quantisation: `cenote.quantize`."""
