"""Write the files of the source tree that follow from its modules: pages and headers."""
