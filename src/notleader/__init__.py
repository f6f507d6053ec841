"""notleader: `proxy` lies on purpose, `faults` says how, `recorders` note what clients say, `spark_analysis` judges.

The four packages are folders at the repository's top. A wheel has them below this one; in a checkout the links beside
this file lead there, so that an editable install, type checkers and editors see the same names (docs/adr/0009).
"""
