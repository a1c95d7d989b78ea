"""Proofs of the hardware's features: tiny programs, and the bytes that they must give."""
