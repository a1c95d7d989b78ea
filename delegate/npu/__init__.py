"""From tasks to register commands, buffers and programs. Knows nothing of TFLite."""
