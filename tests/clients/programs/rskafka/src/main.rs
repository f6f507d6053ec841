//! The scenario with rskafka, which has no groups and no transactions.

use std::collections::BTreeMap;
use std::env;

use chrono::Utc;
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::ClientBuilder;
use rskafka::record::Record;
use serde_json::{json, Map, Value};

fn record(value: &str) -> Record {
    Record {
        key: Some(value.into()),
        value: Some(value.into()),
        headers: BTreeMap::from([("notleader-id".to_owned(), value.into())]),
        timestamp: Utc::now(),
    }
}

fn compression(codec: &str) -> Compression {
    match codec {
        "none" => Compression::NoCompression,
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        other => panic!("unknown codec {other}"),
    }
}

async fn read(partition: &PartitionClient, end: i64) -> Vec<Value> {
    let mut found = Vec::new();
    let mut offset = 0;
    while offset < end {
        let (records, _) = partition.fetch_records(offset, 1..1_000_000, 1_000).await.unwrap();
        for each in records {
            offset = each.offset + 1;
            found.push(json!([each.offset, String::from_utf8(each.record.value.unwrap()).unwrap()]));
        }
    }
    found
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let topic = format!("{}-orders", env::var("PREFIX").unwrap());
    let seeds = env::var("BOOTSTRAP").unwrap().split(',').map(str::to_owned).collect();
    let codecs = env::var("CODECS").unwrap();
    let replicas = env::var("REPLICAS").unwrap().parse().unwrap();
    let client = ClientBuilder::new(seeds).client_id("rskafka").build().await.unwrap();
    let controller = client.controller_client().unwrap();
    controller.create_topic(&topic, 2, replicas, 10_000).await.unwrap();
    let mut partitions = Vec::new();
    for number in 0..2 {
        partitions.push(client.partition_client(&topic, number, UnknownTopicHandling::Retry).await.unwrap());
    }

    let mut produced = Map::new();
    for codec in codecs.split(',') {
        let mut places = Vec::new();
        for number in 0..6 {
            let partition = &partitions[number % 2];
            let records = vec![record(&format!("{codec} {number}"))];
            let offsets = partition.produce(records, compression(codec)).await.unwrap();
            places.push(json!([number % 2, offsets[0]]));
        }
        produced.insert(codec.to_owned(), places.into());
    }
    // It always waits for an answer.
    partitions[0].produce(vec![record("nobody answers")], Compression::NoCompression).await.unwrap();

    let mut consumed = Map::new();
    let mut offsets = Map::new();
    for (number, partition) in partitions.iter().enumerate() {
        let begin = partition.get_offset(OffsetAt::Earliest).await.unwrap();
        let end = partition.get_offset(OffsetAt::Latest).await.unwrap();
        offsets.insert(number.to_string(), json!([begin, end]));
        consumed.insert(number.to_string(), read(partition, end).await.into());
    }
    println!("{}", json!({"produced": produced, "consumed": consumed, "offsets": offsets}));
}
