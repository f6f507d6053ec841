module notleader.lab/librdkafka

go 1.26.8

require github.com/confluentinc/confluent-kafka-go v1.7.0
