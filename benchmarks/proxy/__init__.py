"""notleader beside its peers: the same load through each of them, in interleaved rounds.

``python -m benchmarks.proxy`` starts a broker that answers at once (``load/``, Go), every peer the package
registries offer (``peers``), and notleader in several states (``notleader``); asks each for the same
(``workloads``, ``rounds``), reads what the proxy's processes cost (``processes``), and writes table, plots
and page (``report``, ``page``). Absolute figures belong to one machine; ratios within a round travel.
"""
