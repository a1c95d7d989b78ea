"""The encoder of RK3576's tasks."""
