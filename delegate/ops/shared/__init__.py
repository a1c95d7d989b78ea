"""Rules that several operators share."""
