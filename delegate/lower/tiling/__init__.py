"""Cuts a layer: tiles, other rows, groups of input channels, bands of rows for cores."""
