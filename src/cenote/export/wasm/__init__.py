"""WebAssembly modules, linked and written without a tool, and the JavaScript that loads them."""
