"""Reader of Keras models (.keras, .h5), without Keras."""
