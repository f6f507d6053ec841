"""Writes the rendered reports, on a local disk or wherever Spark can write."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from notleader.spark_analysis.jobs.analyze import Analysis
from notleader.spark_analysis.report import html, junit, markdown


def write_report(spark: SparkSession, analysis: Analysis, out: str) -> str:
    """Write report.html, report.md, junit.xml and findings.json below `out`; the HTML file's path."""
    rendered = {
        "report.html": html.render(analysis),
        "report.md": markdown.render(analysis),
        "junit.xml": junit.render(analysis),
        "findings.json": json.dumps(analysis.as_dict(), indent=1) + "\n",
    }
    for name, text in rendered.items():
        if "://" in out:
            _write_remote(spark, f"{out}/{name}", text)
        else:
            # By rename: who looks while a live analysis writes never sees half of it.
            fresh = Path(out) / f".{name}"
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(Path(out) / name)
    return f"{out}/report.html"


def _write_remote(spark: SparkSession, path: str, text: str) -> None:
    """Write one file through Hadoop's file systems, which know s3a:, hdfs:, gs: and the rest."""
    jvm = spark.sparkContext._jvm
    target = jvm.org.apache.hadoop.fs.Path(path)
    stream = target.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).create(target, True)
    try:
        stream.write(bytearray(text, "utf-8"))
    finally:
        stream.close()
