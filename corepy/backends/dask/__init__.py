"""Dask: arrays in chunks, computed when a value is asked for.

Every chunk is a NumPy array, so what works chunk by chunk runs the operations of the NumPy backend
on them, with its fixes. What couples chunks is Dask's own where Dask has it right.
"""
