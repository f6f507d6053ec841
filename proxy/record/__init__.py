"""What the proxy's own process does for a capture: numbers and frames into a journal, losses counted, readers served.

No Arrow, and nothing that waits for a disk on the loop. What becomes of a journal is `notleader.proxy.recorder`'s.
"""
