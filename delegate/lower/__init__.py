"""Lower partitions to tiled tasks: packed weights and operands, resolved integers, no addresses."""
