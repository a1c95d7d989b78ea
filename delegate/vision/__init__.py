"""Pictures: inputs of models, classification, detection, evaluation, models to try."""
