"""Sockets, clock and TLS: the shell around the sessions, and what the connections of one proxy share."""
