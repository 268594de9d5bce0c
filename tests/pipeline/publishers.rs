//! Transports of the test's choice.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use tilewake::transport::Publisher;
use tilewake_core::{
    event::{Event, EventId},
    outbox::Sent,
};
use tokio::sync::Semaphore;

use crate::world::eventually;

/// Acknowledges everything and keeps it.
#[derive(Default)]
pub(crate) struct Recorder(Mutex<Vec<Event>>);

impl Publisher for Recorder {
    async fn publish(&self, events: Vec<Event>) -> Vec<Sent> {
        let sent = vec![Sent::Acknowledged; events.len()];
        self.0.lock().unwrap().extend(events);
        sent
    }
}

impl Recorder {
    pub(crate) fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }
}

/// Lets a publisher of the test's choice answer, and keeps what was sent.
pub(crate) struct Faulty<F> {
    answer: F,
    sent: Mutex<Vec<EventId>>,
}

impl<F: Fn(usize, &Event) -> Sent> Faulty<F> {
    pub(crate) fn new(answer: F) -> Arc<Self> {
        Arc::new(Self {
            answer,
            sent: Mutex::default(),
        })
    }

    pub(crate) fn sent(&self) -> Vec<EventId> {
        self.sent.lock().unwrap().clone()
    }
}

impl<F: Fn(usize, &Event) -> Sent + Send + Sync> Publisher for Faulty<F> {
    async fn publish(&self, events: Vec<Event>) -> Vec<Sent> {
        let mut sent = self.sent.lock().unwrap();
        let answers = events
            .iter()
            .zip(sent.len()..)
            .map(|(event, nth)| (self.answer)(nth, event))
            .collect();
        sent.extend(events.iter().map(Event::id));
        answers
    }
}

/// Holds every batch until it is let go, and acknowledges it then.
pub(crate) struct Holding {
    arrived: AtomicUsize,
    pub(crate) gate: Semaphore,
}

impl Publisher for Holding {
    async fn publish(&self, events: Vec<Event>) -> Vec<Sent> {
        self.arrived.fetch_add(events.len(), Ordering::SeqCst);
        let _let_go = self.gate.acquire().await;
        vec![Sent::Acknowledged; events.len()]
    }
}

impl Holding {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            arrived: AtomicUsize::new(0),
            gate: Semaphore::new(0),
        })
    }

    pub(crate) async fn has(&self, n_events: usize) {
        eventually("the events are being published", || async {
            self.arrived.load(Ordering::SeqCst) == n_events
        })
        .await;
    }
}
