"""ELF object files, static libraries and shared libraries, written without a tool."""
