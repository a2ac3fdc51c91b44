"""Models as open files: every layer's configuration in one readable JSON, values as safetensors or .npy beside it."""
