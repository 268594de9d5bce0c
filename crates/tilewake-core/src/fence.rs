//! What keeps a slow render from putting an old picture into a cache after the purge.
//!
//! A fill takes a ticket *before* it reads the database. A purge spoils the tickets of its tiles *first* and drops the
//! tiles *then*. A fill asks whether its ticket is still good and inserts in one step, under the lock that also guards
//! this fence. Each other order leaves a stale tile in some interleaving (I1).

use std::collections::BTreeMap;

/// Proof that a fill began before some moment; good until a purge spoils it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// What a request for a tile that is not cached has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Fill the tile.
    Fill(Ticket),
    /// Wait for the fill that holds this ticket.
    Wait(Ticket),
}

/// What a finished fill may do with its picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Cache it.
    Keep,
    /// Serve it to those who waited, and forget it: a purge came in between.
    Discard,
}

/// The fills under way, by what they fill.
#[derive(Debug)]
pub struct Fence<K> {
    good: BTreeMap<K, Ticket>,
    next: u64,
}

impl<K> Default for Fence<K> {
    fn default() -> Self {
        Self {
            good: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<K: Ord + Clone> Fence<K> {
    /// Asks for a tile that is not cached. One fill a tile at a time; but behind a spoiled fill a new one starts,
    /// because the spoiled one may draw what was before the purge.
    pub fn enter(&mut self, key: K) -> Entry {
        if let Some(ticket) = self.good.get(&key) {
            return Entry::Wait(*ticket);
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        self.good.insert(key, ticket);
        Entry::Fill(ticket)
    }

    /// Spoils the tickets of all tiles that `is_stale` names; says how many. The tiles are dropped after this.
    pub fn spoil(&mut self, is_stale: impl Fn(&K) -> bool) -> usize {
        let before = self.good.len();
        self.good.retain(|key, _| !is_stale(key));
        before - self.good.len()
    }

    /// Ends a fill, finished or given up. The caller inserts the picture, or not, before it lets go of the lock.
    #[must_use]
    pub fn settle(&mut self, key: &K, ticket: Ticket) -> Verdict {
        if self.good.get(key) == Some(&ticket) {
            self.good.remove(key);
            return Verdict::Keep;
        }
        Verdict::Discard
    }

    /// How many fills hold a good ticket.
    #[must_use]
    pub fn n_filling(&self) -> usize {
        self.good.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_fills_and_the_next_wait_for_it() {
        let mut fence = Fence::default();
        let Entry::Fill(ticket) = fence.enter("a") else {
            panic!("no fill")
        };
        assert_eq!(fence.enter("a"), Entry::Wait(ticket));
        assert!(matches!(fence.enter("b"), Entry::Fill(_)));
        assert_eq!(fence.settle(&"a", ticket), Verdict::Keep);
        assert!(matches!(fence.enter("a"), Entry::Fill(_)));
    }

    #[test]
    fn a_spoiled_fill_is_discarded_and_later_requests_do_not_wait_for_it() {
        let mut fence = Fence::default();
        let Entry::Fill(old) = fence.enter("a") else {
            panic!("no fill")
        };
        assert_eq!(fence.spoil(|key| *key == "a"), 1);
        let Entry::Fill(new) = fence.enter("a") else {
            panic!("waits for a spoiled fill")
        };
        assert_eq!(fence.settle(&"a", old), Verdict::Discard);
        assert_eq!(fence.settle(&"a", new), Verdict::Keep);
        assert_eq!(fence.n_filling(), 0);
    }

    #[test]
    fn a_purge_elsewhere_spoils_nothing_here() {
        let mut fence = Fence::default();
        let Entry::Fill(ticket) = fence.enter("a") else {
            panic!("no fill")
        };
        assert_eq!(fence.spoil(|key| *key == "b"), 0);
        assert_eq!(fence.settle(&"a", ticket), Verdict::Keep);
    }
}
