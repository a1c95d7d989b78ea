"""Models that a seed makes, and judges of what the delegate does with them."""
