"""One conversation between a client and a broker: bytes and the time in, commands out. Pure."""
