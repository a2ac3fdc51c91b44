"""ONNX Runtime's own operators (com.microsoft)."""
