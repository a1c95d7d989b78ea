"""The DPU's arithmetic in NumPy, for the oracles of the simulator and of registers."""
