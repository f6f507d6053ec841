"""Recorders: two lines of change make a Kafka client write down what it was asked and what it said.

`aiokafka`, `confluent_kafka` and `kafka_python` in `notleader.recorders` each have `recorded(client, file)`, which
takes a producer or a consumer and gives back the same with every operation written to `file` (`lines` is the
format). `java/` and `go/` beside this file do the same for their clients. Nothing here needs the proxy or Spark.
"""
