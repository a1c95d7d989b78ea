"""The runtime's side: plugin, runtimes, devices, and a model with the delegate in it."""
