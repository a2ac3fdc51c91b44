"""Random graphs, and what they give by ONNX's reference evaluator and by ONNX Runtime: the kind `graphs`."""
