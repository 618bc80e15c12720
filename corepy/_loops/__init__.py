"""What compiled loops share, those of the Numba backend and the fused kernels. Needs Numba."""
