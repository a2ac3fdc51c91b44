"""The processor and its surroundings: features by CPUID, cores and NUMA nodes."""
