//! The transport: it keeps every event for ever, and loses none that it has taken.
//!
//! Order, repeats and redelivery are the consumers' side of it: they take what is pending in any order.

use std::collections::BTreeSet;

use tilewake_core::event::Event;

use super::database::Session;

/// What an acknowledgement of the transport means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The ledger has the event.
    Direct,
    /// The topic has it.
    Topic,
}

/// Who waits for an acknowledgement of which row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sender {
    pub relay: usize,
    pub session: Option<Session>,
    pub row: i64,
}

pub struct Message {
    pub event: Event,
    pub sender: Sender,
}

pub struct Transport {
    pub kind: Kind,
    pub log: Vec<Message>,
    acknowledged: BTreeSet<Sender>,
}

impl Transport {
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            log: Vec::new(),
            acknowledged: BTreeSet::new(),
        }
    }

    pub fn publish(&mut self, event: Event, sender: Sender) {
        self.log.push(Message { event, sender });
    }

    /// A consumer has done with a message.
    pub fn acknowledge(&mut self, message: usize) {
        self.acknowledged.insert(self.log[message].sender);
    }

    pub fn has_acknowledged(&self, sender: Sender) -> bool {
        self.kind == Kind::Topic || self.acknowledged.contains(&sender)
    }
}
