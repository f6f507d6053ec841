"""Find the fault that breaks a client, and shrink it: points, candidates, ordering, judging and shrinking are pure."""
