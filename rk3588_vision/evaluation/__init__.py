"""Accuracy of a model on labelled pictures, the delegate beside the CPU."""
