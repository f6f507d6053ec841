"""What the faults did to the clients, read from a capture and from what the clients said.

The way of the data: `io` (capture folders) and `outcomes` (JSON lines) → `transforms.attempts`, `transforms.landed`
→ `transforms.history` (one row per client operation) → `checks` (one question per file → cases)
→ `findings` (cases summed up, one sentence each) → `report` (HTML, Markdown, JUnit, terminal).
`jobs.analyze` runs that line once over folders; `schemas` holds the columns of every table on the way.
Nothing here needs the proxy: the capture's columns are the whole contract.
"""
