"""Standing in for a cluster with what was recorded of it: which recorded exchange answers which request.

Pure but for `serving`, which has the sockets: rows of a capture and frames of clients in, frames and delays out.
`recording` reads the rows, `stand_in` gives each request to the one that answers its API; `produce`, `fetch` and
`list_offsets` share the `log`, everything without a state of its own is `choosing`'s.
"""
