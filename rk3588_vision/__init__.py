"""Pictures: inputs of models, classification, detection, evaluation, models to try."""

from pathlib import Path

FRIGATE_PLUGIN = Path(__file__).with_name("frigate_rk3588.py")
