"""Turn tasks into register commands, buffers and programs. Knows nothing of TFLite."""
