"""Where the CPU of a small request goes, by the kernel's profiler: what stands between notleader and its goals."""
