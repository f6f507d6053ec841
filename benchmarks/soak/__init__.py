"""Churn for half an hour, and what memory and descriptors did meanwhile.

``python -m benchmarks.soak`` starts notleader with everything on, lets clients come and go, adds and removes rules,
and kills and restarts the broker behind it. What is measured is the proxy at rest, between two cycles: what it keeps
then, it keeps for good.
"""
