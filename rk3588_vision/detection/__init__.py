"""Turn a detector's outputs into boxes on a picture: SSD and YOLO families."""
