//! How long a gap is waited for before it is judged.

use tilewake_core::{
    feature::Version,
    ledger::{Gap, LedgerKey, judge_gap, purge_layer},
};

use super::{
    consumer::Consumer,
    controls::{Invariant, Weakness},
    laws,
    world::World,
};

/// How long a gap has been waited for: until the relays have caught up, then until this message has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    Relays,
    Messages(usize),
}

impl World {
    /// Judges the gaps that have been waited for long enough; begins to wait for the others.
    pub fn judge_gaps(&mut self, name: usize) {
        let waiting = std::mem::take(&mut self.patience);
        for (key, watermark) in self.gaps(name) {
            let waiting_for = (name, key, watermark);
            let patience = waiting.get(&waiting_for).copied().unwrap_or(Patience::Relays);
            match self.wait(name, &waiting_for.1, patience) {
                Some(patience) => drop(self.patience.insert(waiting_for, patience)),
                None => self.judge(name, &waiting_for.1),
            }
        }
        let others = waiting.into_iter().filter(|((other, ..), _)| *other != name);
        self.patience.extend(others);
    }

    /// The rows of current epochs that have gaps, and their watermarks.
    pub fn gaps(&self, name: usize) -> Vec<(LedgerKey, Version)> {
        let name = &self.names[name];
        let is_current = |key: &LedgerKey| {
            name.layers
                .get(&key.feature.layer)
                .is_some_and(|l| l.epoch == key.epoch)
        };
        let gaps = name
            .rows
            .iter()
            .filter(|(key, row)| !row.timeline.seen().is_empty() && is_current(key));
        gaps.map(|(key, row)| (key.clone(), row.timeline.watermark())).collect()
    }

    /// What is still waited for.
    fn wait(&self, name: usize, key: &LedgerKey, patience: Patience) -> Option<Patience> {
        if self.weakness == Some(Weakness::GapsByClockAlone) {
            return None;
        }
        let is_behind = laws::unpublished(&self.database).any(|row| laws::layer_of(row) == key.feature.layer);
        match patience {
            Patience::Relays if is_behind => Some(patience),
            Patience::Relays => Some(Patience::Messages(self.transport.log.len())),
            Patience::Messages(end) => {
                let ours = self.consumers.iter().filter(|consumer| consumer.name == name);
                let mut under_way = ours
                    .flat_map(Consumer::messages)
                    .chain(self.names[name].pending.iter().copied());
                (self.names[name].lags_behind(end) || under_way.any(|message| message < end)).then_some(patience)
            }
        }
    }

    fn judge(&mut self, name: usize, key: &LedgerKey) {
        let name = &mut self.names[name];
        let gap = name.rows.get_mut(key).and_then(judge_gap);
        if let Some(Gap::Lost { first, .. }) = gap {
            name.append(purge_layer(key.feature.layer.clone()));
            let text = format!(
                "{}/{} is said to have lost version {first}",
                key.feature.layer, key.feature.id
            );
            self.violations.insert((Invariant::FalseGap, text));
        }
    }
}
