"""From a detector's outputs to boxes on a picture: SSD and YOLO families."""
