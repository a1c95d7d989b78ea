"""The table of contents of compilation: compiler, cache, ahead of time."""
