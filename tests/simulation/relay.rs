//! A relay: one step of it is one thing that the next crash or another process can come before or after.

use tilewake_core::{
    event::{Carried, Event, WalPosition},
    outbox::{self, Current, CurrentRow, OutboxRow, Record, Sent},
};

use super::{
    capture::{key, layer_number},
    controls::Weakness,
    database::{Database, Feature, Session, Tables},
    transport::{Sender, Transport},
};

/// How often an event may fail alone.
pub const MAX_ATTEMPTS: u32 = 2;
/// How many rows a relay claims at once.
const BATCH: usize = 3;

/// What the transport makes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Taken,
    Refused,
    /// Taken, but the relay does not learn of it.
    TakenUnheard,
    Lost,
}

/// Where the relay reads geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Primary,
    /// Behind, or wrong only in that.
    Replica,
}

/// Where a claim begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    Remembered,
    Full,
}

#[derive(Clone, Debug)]
struct Send {
    row: OutboxRow,
    event: Event,
    sent: Sent,
}

#[derive(Clone)]
enum Stage {
    Idle,
    Claimed(Vec<OutboxRow>, Tables),
    Joined(Vec<Send>, WalPosition),
    Checked(Vec<Send>),
    Published(Vec<Send>),
}

/// A relay process.
pub struct Relay {
    number: usize,
    session: Option<Session>,
    stage: Stage,
    /// The lowest row it still expects to be unpublished.
    from: i64,
    weakness: Option<Weakness>,
}

impl Relay {
    pub fn new(number: usize, weakness: Option<Weakness>) -> Self {
        Self {
            number,
            session: None,
            stage: Stage::Idle,
            from: 0,
            weakness,
        }
    }

    fn is_weak(&self, weakness: Weakness) -> bool {
        self.weakness == Some(weakness)
    }

    /// Dies; the next to take its place remembers nothing.
    pub fn die(&mut self, database: &mut Database) {
        if let Some(session) = self.session {
            database.end(session);
        }
        *self = Self::new(self.number, self.weakness);
    }

    /// The server ends its session, because it has idled in its transaction for too long.
    pub fn time_out(&mut self, database: &mut Database) {
        if let Some(session) = self.session {
            database.end(session);
        }
    }

    pub fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Idle)
    }

    pub fn claim(&mut self, database: &mut Database, claim: Claim, now: i64) {
        if !self.is_idle() {
            return;
        }
        if claim == Claim::Full && !self.is_weak(Weakness::Cursor) {
            self.from = 0;
        }
        let session = database.connect();
        let mut rows = database.claim(session, self.from, now, BATCH);
        if self.is_weak(Weakness::InnerJoin) {
            rows.retain(|row| feature_of(row).is_none_or(|feature| database.visible.rows.contains_key(&feature)));
        }
        let Some(last) = rows.last() else {
            database.end(session);
            return;
        };
        self.from = last.id + 1;
        self.session = Some(session);
        self.stage = Stage::Claimed(rows, database.visible.clone());
    }

    /// Goes on by one thing.
    pub fn advance(
        &mut self,
        database: &mut Database,
        transport: &mut Transport,
        source: Source,
        fates: &[Fate],
        now: i64,
    ) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => Stage::Idle,
            Stage::Claimed(rows, claimed) => self.join(database, rows, &claimed, source),
            Stage::Joined(sends, position) => self.check(database, sends, position, now),
            Stage::Checked(sends) => self.publish(transport, sends, fates),
            Stage::Published(sends) => self.mark(database, transport, &sends, now),
        };
    }

    /// Reads geometry and version from one snapshot, and only then the position in the log.
    fn join(&self, database: &Database, rows: Vec<OutboxRow>, claimed: &Tables, source: Source) -> Stage {
        let tables = match source {
            Source::Primary => &database.visible,
            Source::Replica => database.replica(),
        };
        let geometry = if self.is_weak(Weakness::TwoSnapshots) {
            claimed
        } else {
            tables
        };
        let position = database.insert_position();
        let sends = rows.into_iter().map(|row| {
            let event = self.event(database, tables, geometry, &row, position);
            let sent = Sent::Unknown;
            Send { row, event, sent }
        });
        Stage::Joined(sends.collect(), position)
    }

    fn event(
        &self,
        database: &Database,
        tables: &Tables,
        geometry: &Tables,
        row: &OutboxRow,
        position: WalPosition,
    ) -> Event {
        match &row.record {
            Record::Edit(edit) if outbox::is_exhausted(row, MAX_ATTEMPTS) => {
                Event::Edit(outbox::without_geometry(edit.clone(), position))
            }
            Record::Edit(edit) => {
                let current = feature_of(row).and_then(|feature| current(database, tables, geometry, feature));
                let version = current.as_ref().map(|current| current.version);
                let mut event = outbox::join(edit.clone(), current, position);
                let is_missing = feature_of(row)
                    .is_some_and(|feature| database.hidden.contains(&feature) || !tables.rows.contains_key(&feature));
                if self.is_weak(Weakness::TombstoneByAbsence) && is_missing {
                    event.geometry_version = version.unwrap_or(edit.version).max(edit.version);
                    event.carried = Carried::Tombstone;
                }
                Event::Edit(event)
            }
            Record::Epoch {
                layer,
                epoch,
                occurred_at,
            } => {
                let settings = tables.layers[usize::from(layer_number(layer))].settings;
                outbox::raised(layer.clone(), *epoch, settings, *occurred_at, position)
            }
        }
    }

    /// Forces the log to disk, then asks whether its own session has seen no crash since the claim.
    fn check(&self, database: &mut Database, sends: Vec<Send>, position: WalPosition, now: i64) -> Stage {
        if !self.is_weak(Weakness::AnnounceBeforeFlush) && !database.has_flushed(position) {
            database.flush();
        }
        let is_alive = self.session.is_some_and(|session| database.is_alive(session));
        if !is_alive && !self.is_weak(Weakness::NoLastCheck) {
            return Stage::Idle;
        }
        if self.is_weak(Weakness::MarkBeforePublish) {
            self.settle(database, &sends, &vec![Sent::Acknowledged; sends.len()], now);
        }
        Stage::Checked(sends)
    }

    fn publish(&self, transport: &mut Transport, mut sends: Vec<Send>, fates: &[Fate]) -> Stage {
        for (send, fate) in sends.iter_mut().zip(fates.iter().cycle()) {
            let sender = Sender {
                relay: self.number,
                session: self.session,
                row: send.row.id,
            };
            if matches!(fate, Fate::Taken | Fate::TakenUnheard) {
                transport.publish(send.event.clone(), sender);
            }
            send.sent = match fate {
                Fate::Taken => Sent::Acknowledged,
                Fate::Refused => Sent::Refused("refused".into()),
                Fate::TakenUnheard | Fate::Lost => Sent::Unknown,
            };
        }
        Stage::Published(sends)
    }

    /// Marks exactly what was acknowledged, in the claiming transaction: it fails if the session is gone.
    fn mark(&mut self, database: &mut Database, transport: &Transport, sends: &[Send], now: i64) -> Stage {
        let mut sent: Vec<_> = sends.iter().map(|send| self.answer(transport, send)).collect();
        if self.is_weak(Weakness::MarkByRange) {
            let last = sent.iter().rposition(|sent| *sent == Sent::Acknowledged);
            sent.iter_mut()
                .take(last.map_or(0, |last| last + 1))
                .for_each(|sent| *sent = Sent::Acknowledged);
        }
        if !self.is_weak(Weakness::MarkBeforePublish) {
            self.settle(database, sends, &sent, now);
        }
        if let Some(session) = self.session.take() {
            database.end(session);
        }
        Stage::Idle
    }

    fn answer(&self, transport: &Transport, send: &Send) -> Sent {
        let sender = Sender {
            relay: self.number,
            session: self.session,
            row: send.row.id,
        };
        match &send.sent {
            Sent::Acknowledged if !transport.has_acknowledged(sender) => Sent::Unknown,
            sent => sent.clone(),
        }
    }

    fn settle(&self, database: &mut Database, sends: &[Send], sent: &[Sent], now: i64) {
        if self.session.is_some_and(|session| database.is_alive(session)) {
            let rows = sends.iter().map(|send| &send.row).zip(sent.iter().cloned());
            let settlement = outbox::settle(rows, MAX_ATTEMPTS);
            database.commit(vec![super::database::Write::Settle(settlement, now)]);
        }
    }
}

/// The feature of an edit's row.
fn feature_of(row: &OutboxRow) -> Option<Feature> {
    match &row.record {
        Record::Edit(edit) => Some(Feature(
            layer_number(&edit.key.layer),
            edit.key.id.as_str().parse().ok()?,
        )),
        Record::Epoch { .. } => None,
    }
}

/// A feature as one statement reads it; nothing of a layer that is not tracked any more.
fn current(database: &Database, versions: &Tables, geometry: &Tables, feature: Feature) -> Option<Current> {
    debug_assert_eq!(key(feature).id.as_str(), feature.1.to_string());
    versions.layers[usize::from(feature.0)].settings?;
    let version = versions.versions.get(&feature)?;
    let row = geometry
        .rows
        .get(&feature)
        .filter(|_| !database.hidden.contains(&feature));
    Some(Current {
        version: version.version,
        is_deleted: version.is_deleted,
        row: match row.map(|row| row.places.geometry()) {
            None => CurrentRow::Missing,
            Some(None) => CurrentRow::Empty,
            Some(Some(geometry)) => CurrentRow::Geometry(geometry),
        },
    })
}
