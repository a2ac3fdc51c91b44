"""Reader of TensorFlow Lite models (.tflite), without TensorFlow."""
