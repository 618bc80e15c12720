"""tinygrad, lazy and fusing, on OpenCL and WebGPU: where its modules begin is `_backend`."""
