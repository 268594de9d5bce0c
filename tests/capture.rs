//! Every edit of a layer, however it is made, stands in the outbox exactly once, and no writer fails or waits for it.
#![expect(clippy::unwrap_used, reason = "a failed test may panic anywhere")]

#[path = "capture/adding.rs"]
mod adding;
#[path = "capture/altering.rs"]
mod altering;
#[path = "capture/concurrency.rs"]
mod concurrency;
#[path = "capture/epochs.rs"]
mod epochs;
#[path = "capture/geometry.rs"]
mod geometry;
#[path = "capture/outbox.rs"]
mod outbox;
#[path = "capture/statements.rs"]
mod statements;
#[path = "capture/tables.rs"]
mod tables;
#[path = "capture/world.rs"]
mod world;
