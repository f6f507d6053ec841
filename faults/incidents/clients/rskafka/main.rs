//! An rskafka client that sends numbered messages at a steady rate, each call in a task of its own.
//!
//! Arguments (name=value): those of outcome.go for mode=produce. rskafka has no idempotence and no timeout of a
//! request; `delivery_timeout_ms` bounds its retries.

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::Utc;
use rskafka::client::partition::{Compression, UnknownTopicHandling};
use rskafka::client::ClientBuilder;
use rskafka::record::Record;
use rskafka::BackoffConfig;
use serde_json::{json, Value};

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

fn say(line: &Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

fn settings() -> HashMap<String, String> {
    let mut known: HashMap<String, String> = [
        ("bootstrap", ""), ("topic", ""), ("client_id", ""), ("client_version", ""), ("mode", "produce"),
        ("group_id", ""), ("messages", "20"), ("interval_ms", "100"), ("partition", "0"), ("idempotent", "false"),
        ("retries", "3"), ("request_timeout_ms", "2000"), ("delivery_timeout_ms", "8000"),
        ("connect_timeout_ms", "2000"), ("metadata_max_age_ms", "0"), ("budget_ms", "0"), ("wait_ms", "12000"), ("commit_every", "5"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    for argument in env::args().skip(1) {
        let (name, value) = argument.split_once('=').unwrap_or((&argument, ""));
        if !known.contains_key(name) {
            panic!("unknown argument: {argument}");
        }
        known.insert(name.to_owned(), value.to_owned());
    }
    known
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let settings = settings();
    let number = |name: &str| settings[name].parse::<u64>().unwrap();
    let seeds = settings["bootstrap"].split(',').map(str::to_owned).collect();
    let backoff = BackoffConfig {
        deadline: Some(Duration::from_millis(number("delivery_timeout_ms"))),
        ..BackoffConfig::default()
    };
    let client =
        ClientBuilder::new(seeds).client_id(settings["client_id"].as_str()).backoff_config(backoff).build().await.unwrap();
    let partition = number("partition");
    let target = client.partition_client(&settings["topic"], partition as i32, UnknownTopicHandling::Error).await.unwrap();
    let target = Arc::new(target);
    let mut open = Vec::new();
    for each in 0..number("messages") {
        if each > 0 {
            tokio::time::sleep(Duration::from_millis(number("interval_ms"))).await;
        }
        let id = format!("{}-{each}", settings["client_id"]);
        let mut said = json!({
            "client": settings["client_id"], "client_version": settings["client_version"],
            "client_id": settings["client_id"], "operation": "send", "message_id": id, "topic": settings["topic"],
            "partition": partition, "called_at_us": now_us(), "outcome": "pending",
            "thread": "main",
        });
        if number("budget_ms") > 0 {
            said["budget_ms"] = number("budget_ms").into();
        }
        say(&said);
        let record = Record {
            key: None,
            value: Some(id.clone().into()),
            headers: BTreeMap::from([("notleader-id".to_owned(), id.into())]),
            timestamp: Utc::now(),
        };
        let target = Arc::clone(&target);
        said["returned_at_us"] = now_us().into();
        open.push(tokio::spawn(async move {
            let told = target.produce(vec![record], Compression::NoCompression).await;
            said["completed_at_us"] = now_us().into();
            match told {
                Ok(offsets) => {
                    said["outcome"] = "ok".into();
                    said["offset"] = offsets[0].into();
                }
                Err(error) => {
                    // What surely kept a record out, as notleader.recorders.lines knows it; all else may have happened.
                    let refused = ["MessageTooLarge", "InvalidTopic", "InvalidRecord", "AuthorizationFailed", "PolicyViolation"];
                    let word = if refused.iter().any(|name| format!("{error:?}").contains(name)) { "fail" } else { "info" };
                    said["outcome"] = word.into();
                    said["error"] = error.to_string().chars().take(200).collect::<String>().into();
                }
            }
            say(&said);
        }));
    }
    let all = async {
        for each in open {
            let _ = each.await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(number("wait_ms")), all).await;
}
