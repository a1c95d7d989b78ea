"""A plain machine for lowered tasks: the oracle of tests for what tasks mean."""
