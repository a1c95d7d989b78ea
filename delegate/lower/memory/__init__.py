"""Device memory: which bytes operations touch, where tensors lie, and proof that nothing collides.

``footprint`` declares what an operation touches of its tensors, before they have addresses, and
what a task touches of its buffers, afterwards. ``placement`` places
tensors by the first; the cores' schedule (``npu``) uses the second; ``check`` compares both.
"""
