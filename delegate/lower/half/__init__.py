"""Float models in fp16: weights, stages, tasks and bounds. Imported where a model needs them."""
