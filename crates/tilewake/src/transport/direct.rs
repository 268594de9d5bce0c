//! The transport within one process: acknowledged means that the consumer's ledger transaction has committed.

use std::sync::Arc;

use tilewake_core::{event::Event, outbox::Sent};
use tracing::warn;

use super::Publisher;
use crate::consumer::{ConsumeError, Consumer};

/// Hands events straight to a consumer.
#[derive(Clone)]
pub struct Direct {
    consumer: Arc<Consumer>,
}

impl Direct {
    /// A transport that ends at `consumer`.
    #[must_use]
    pub fn new(consumer: Arc<Consumer>) -> Self {
        Self { consumer }
    }

    /// Finds the event that the ledger will not take, so that the others need not wait for it.
    async fn publish_one_by_one(&self, events: Vec<Event>) -> Vec<Sent> {
        let mut sent = Vec::with_capacity(events.len());
        for event in events {
            let outcome = self.consumer.consume(std::slice::from_ref(&event)).await;
            sent.push(match outcome {
                Ok(_) => Sent::Acknowledged,
                Err(error) if error.is_about_an_event() => {
                    warn!(event = %event.id(), error = &error as &dyn std::error::Error, "the ledger refused an event");
                    Sent::Refused(crate::error_chain(&error))
                }
                Err(error) => unknown(&error),
            });
        }
        sent
    }
}

impl Publisher for Direct {
    async fn publish(&self, events: Vec<Event>) -> Vec<Sent> {
        match self.consumer.consume(&events).await {
            Ok(_) => vec![Sent::Acknowledged; events.len()],
            Err(error) if error.is_about_an_event() => self.publish_one_by_one(events).await,
            Err(error) => vec![unknown(&error); events.len()],
        }
    }
}

fn unknown(error: &ConsumeError) -> Sent {
    warn!(
        error = error as &dyn std::error::Error,
        "could not reach the ledger; the events stay in the outbox"
    );
    Sent::Unknown
}
