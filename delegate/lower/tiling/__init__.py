"""How a layer is cut: tiles, other rows, groups of input channels, bands of rows for cores."""
