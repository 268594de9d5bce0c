//! How events reach a consumer.
//!
//! A relay publishes and is told, event by event, what the transport has for good. `direct` hands the events to a
//! consumer in the same process; others can follow behind the same seam.

pub mod direct;

use std::future::Future;

use tilewake_core::{event::Event, outbox::Sent};

/// Takes events to consumers, at least once.
///
/// Whatever reports [`Sent::Acknowledged`] must survive the death of this process: the relay marks the row as published
/// and nobody will send it again. Consumers tolerate repeats and any order (I3).
pub trait Publisher: Send + Sync {
    /// Sends a batch, all of it in flight at once, and answers for every event, in the order given.
    ///
    /// An error of the transport as a whole is [`Sent::Unknown`] for every event it concerns, never
    /// [`Sent::Refused`]: that is for an event that fails alone, while others would pass.
    fn publish(&self, events: Vec<Event>) -> impl Future<Output = Vec<Sent>> + Send;
}
