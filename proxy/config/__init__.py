"""The settings of a proxy, and the files that they come from."""
