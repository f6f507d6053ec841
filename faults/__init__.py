"""Pure fault engine: what to do to one exchange, decided without socket, clock or global random.

The way of a decision: `plan` (which rules) → `match` (is it meant?) → `trigger` (is it time?) → a fault of
`catalog` (what to do) → `partial` and `answers` (for which partitions, in which words) → `actions` (what the
transport executes). `election` and `cluster` hold the one story that every answer has to agree with;
`timeline` changes the plan over time; `schema` reads documents; `docs` prints the catalogue.
"""
