//! Processes, servers and connections that end at the worst moment: nothing is lost (I2), nothing is stale (I1), and
//! nothing is announced that a crash takes back.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod program;
#[path = "pipeline/world.rs"]
mod world;

#[path = "crash/consumer.rs"]
mod consumer;
#[path = "crash/database.rs"]
mod database;
#[path = "crash/frozen.rs"]
mod frozen;
#[path = "crash/killed.rs"]
mod killed;
#[expect(dead_code, reason = "publishes in ways that only other tests need")]
#[path = "pipeline/publishers.rs"]
mod publishers;
#[path = "crash/relay.rs"]
mod relay;
#[path = "crash/traffic.rs"]
mod traffic;
