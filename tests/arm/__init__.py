"""The tests on an Arm CPU that QEMU emulates: `python -m tests.arm [arguments of pytest]`, or `make arm`.

An aarch64 Python of Debian and the wheels for aarch64 are put into the folder `.arm` once (150 MB of downloads), for
which Debian's `mmdebstrap` and `qemu-user-static` are needed, but not root. QEMU emulates its processes; Cenote is the
checkout. Its kernels are compiled by this machine's LLVM, in the processes that Cenote starts for that, as an emulated
LLVM takes ten times as long; they are kept in `.arm/cache`. What the emulation cannot show: time, and that stores of
one thread are seen late by another.
"""
