"""The encoder of RK3588's tasks: a file per block of registers."""
