"""`notleader bisect`: the first release of a client that an incident or rule file breaks, and the first it doesn't."""
