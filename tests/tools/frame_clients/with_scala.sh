#!/bin/sh
# Kafka 0.8.2's own tools, the old Scala producer and consumer among them, against BOOTSTRAP; JARS is their folder.
set -eu
kafka() { java -cp "$JARS/*" "$@"; }
export LC_ALL=C
for codec in none gzip snappy; do
    for acks in 1 -1 0; do
        printf 'a\nb\nc\n' | kafka kafka.tools.ConsoleProducer --sync --broker-list "$BOOTSTRAP" \
            --topic orders --request-required-acks "$acks" --compression-codec "$codec"
    done
done
for codec in none lz4; do
    printf 'a\nb\n' | kafka kafka.tools.ConsoleProducer --new-producer --broker-list "$BOOTSTRAP" \
        --topic orders --request-required-acks 1 --compression-codec "$codec"
done
kafka kafka.tools.GetOffsetShell --broker-list "$BOOTSTRAP" --topic orders --time -1 || true
kafka kafka.tools.GetOffsetShell --broker-list "$BOOTSTRAP" --topic orders --time -2 || true
kafka kafka.tools.SimpleConsumerShell --broker-list "$BOOTSTRAP" --topic orders --partition 0 --max-messages 5 || true
