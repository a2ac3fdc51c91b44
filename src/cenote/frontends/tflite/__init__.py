"""TensorFlow Lite models (.tflite) without TensorFlow."""
