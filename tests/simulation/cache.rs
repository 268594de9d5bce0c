//! A tile cache with its fence, and the purger that follows a journal for it.

use std::collections::BTreeMap;

use tilewake_core::{
    fence::{Entry, Fence, Ticket, Verdict},
    journal::{Page, Plan, Purge, plan},
};

use super::{
    capture::layer_name,
    consumer::Name,
    controls::Weakness,
    database::{Database, Picture},
    places::tile_id,
};

/// How many journal rows are read at once.
const PAGE: usize = 2;
/// How far a cache may fall behind before it rather empties itself.
pub const MAX_BEHIND: i64 = 6;

/// A tile of a layer, both by number.
pub type Tile = (u8, u8);

struct Fill {
    tile: Tile,
    /// `None` where the ticket is taken too late.
    ticket: Option<Ticket>,
    picture: Option<Picture>,
}

impl Fill {
    fn read(&mut self, database: &Database) {
        self.picture = Some(database.visible.render(self.tile.0, self.tile.1));
    }
}

enum Stage {
    Reading,
    Planned(Plan),
    HalfDone(Plan),
    Purged(Plan),
}

/// The cache of one process.
pub struct Cache {
    pub name: usize,
    pub tiles: BTreeMap<Tile, Picture>,
    fence: Fence<Tile>,
    fills: Vec<Fill>,
    cursor: i64,
    stage: Stage,
    n_crashes: u32,
    weakness: Option<Weakness>,
}

impl Cache {
    /// Begins empty; the cursor is read before the first fill.
    pub fn start(number: usize, name: &Name, database: &Database, weakness: Option<Weakness>) -> Self {
        Self {
            name: number,
            tiles: BTreeMap::new(),
            fence: Fence::default(),
            fills: Vec::new(),
            cursor: name.head,
            stage: Stage::Reading,
            n_crashes: database.n_crashes,
            weakness,
        }
    }

    fn is_weak(&self, weakness: Weakness) -> bool {
        self.weakness == Some(weakness)
    }

    /// Asks for a tile; a fill takes its ticket before it reads.
    pub fn request(&mut self, tile: Tile) {
        if self.tiles.contains_key(&tile) {
            return;
        }
        let ticket = if self.is_weak(Weakness::TicketAfterRead) {
            None
        } else {
            match self.fence.enter(tile) {
                Entry::Fill(ticket) => Some(ticket),
                Entry::Wait(_) => return,
            }
        };
        self.fills.push(Fill {
            tile,
            ticket,
            picture: None,
        });
    }

    /// One of the fills goes on: reads the database, or ends.
    pub fn fill(&mut self, pick: usize, database: &Database) {
        if self.fills.is_empty() {
            return;
        }
        let at = pick % self.fills.len();
        if self.fills[at].picture.is_none() {
            self.fills[at].read(database);
            return;
        }
        let fill = self.fills.swap_remove(at);
        let ticket = fill.ticket.or_else(|| match self.fence.enter(fill.tile) {
            Entry::Fill(ticket) => Some(ticket),
            Entry::Wait(_) => None,
        });
        let verdict = ticket.map_or(Verdict::Discard, |ticket| self.fence.settle(&fill.tile, ticket));
        if (verdict == Verdict::Keep || self.is_weak(Weakness::NoFence))
            && let Some(picture) = fill.picture
        {
            self.tiles.insert(fill.tile, picture);
        }
    }

    /// All fills that have not read the database do so.
    pub fn read_all(&mut self, database: &Database) {
        let waiting = self.fills.iter_mut().filter(|fill| fill.picture.is_none());
        waiting.for_each(|fill| fill.read(database));
    }

    /// All fills end.
    pub fn fill_all(&mut self, database: &Database) {
        while !self.fills.is_empty() {
            self.fill(0, database);
        }
    }

    /// The purger goes on by one thing: reads, spoils, drops, moves its cursor.
    ///
    /// Tells of a purge of everything that nothing called for.
    pub fn follow(&mut self, name: &Name, database: &Database) -> Result<(), String> {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Reading) {
            Stage::Reading if self.n_crashes != database.n_crashes => {
                self.start_anew(name, database);
                Stage::Reading
            }
            Stage::Reading => return self.read(name),
            Stage::Planned(plan) => {
                self.purge_half(&plan, !self.is_weak(Weakness::DropBeforeSpoil));
                Stage::HalfDone(plan)
            }
            Stage::HalfDone(plan) => {
                self.purge_half(&plan, self.is_weak(Weakness::DropBeforeSpoil));
                Stage::Purged(plan)
            }
            Stage::Purged(plan) => {
                self.cursor = plan.cursor;
                Stage::Reading
            }
        };
        Ok(())
    }

    /// The purge fails half-way; the purger begins again at its cursor.
    pub fn fail(&mut self) {
        self.stage = Stage::Reading;
    }

    pub fn is_quiet(&self, name: &Name, database: &Database) -> bool {
        self.n_crashes == database.n_crashes && self.cursor == name.head
    }

    /// Its session with the features' database broke: it may hold pictures of edits that the crash took back.
    fn start_anew(&mut self, name: &Name, database: &Database) {
        self.n_crashes = database.n_crashes;
        if !self.is_weak(Weakness::KeepAfterCrash) {
            self.fence.spoil(|_| true);
            self.tiles.clear();
            self.cursor = name.head;
        }
    }

    fn read(&mut self, name: &Name) -> Result<(), String> {
        let page = name.page(self.cursor, PAGE);
        let is_behind = page.head - self.cursor > MAX_BEHIND;
        let is_pruned = name.journal.range(self.cursor + 1..).next().map(|(number, _)| *number);
        let is_pruned = page.head > self.cursor && is_pruned != Some(self.cursor + 1);
        let plan = self.plan(page);
        if self.is_weak(Weakness::CursorBeforePurge) {
            self.cursor = plan.cursor;
        }
        let is_needless = plan.purge == Purge::Everything && !is_behind && !is_pruned;
        self.stage = if plan.purge == Purge::Nothing {
            Stage::Reading
        } else {
            Stage::Planned(plan)
        };
        if is_needless {
            Err(format!("a cache at {} emptied itself for nothing", self.cursor))
        } else {
            Ok(())
        }
    }

    /// Where numbers are not in commit order they have holes that mean nothing, and a purger has to overlook them.
    fn plan(&self, mut page: Page) -> Plan {
        if !self.is_weak(Weakness::NumbersBeforeCommit) {
            return plan(self.cursor, page, MAX_BEHIND);
        }
        let last = page.rows.last().map_or(self.cursor, |(number, ..)| *number);
        for ((number, ..), counted) in page.rows.iter_mut().zip(1..) {
            *number = counted;
        }
        page.head = i64::try_from(page.rows.len()).unwrap();
        Plan {
            cursor: last,
            ..plan(0, page, MAX_BEHIND)
        }
    }

    /// Spoils the tickets of the stale tiles, or else drops the tiles.
    fn purge_half(&mut self, plan: &Plan, spoils: bool) {
        if spoils {
            self.fence.spoil(|tile| is_stale(plan, *tile));
        } else {
            self.tiles.retain(|tile, _| !is_stale(plan, *tile));
        }
    }
}

fn is_stale(plan: &Plan, (layer, tile): Tile) -> bool {
    match &plan.purge {
        Purge::Nothing => false,
        Purge::Everything => true,
        Purge::Tiles(layers) => layers
            .get(&layer_name(layer))
            .is_some_and(|tiles| tiles.contains(tile_id(tile))),
    }
}
