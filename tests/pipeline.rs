//! Relay, direct transport, consumer and journal on a real Postgres.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "pipeline/publishers.rs"]
mod publishers;
#[path = "pipeline/world.rs"]
mod world;

#[path = "pipeline/consumers.rs"]
mod consumers;
#[path = "pipeline/relays.rs"]
mod relays;
#[path = "pipeline/retention.rs"]
mod retention;
#[path = "pipeline/writers.rs"]
mod writers;
