"""Makes int8 models of float models, and measures what that costs, layer by layer."""
