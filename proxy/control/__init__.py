"""What `notleader run` does: its flags, its log, its process or its several."""
