"""The stand-in of a recorded cluster, without any socket."""
