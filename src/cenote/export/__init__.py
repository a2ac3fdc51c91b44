"""Models as native libraries and WebAssembly modules that run without Python."""
