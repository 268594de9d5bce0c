//! The fenced tile cache: a picture that a purge overtook is never kept (I1).
//!
//! One lock guards the fence and every insertion. A fill takes its ticket before it reads the database; a purge spoils the
//! tickets of its tiles first and drops the tiles then; a finished fill asks for its verdict and inserts in one step.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use moka::sync::Cache;
use tilewake_core::{
    fence::{Entry, Fence, Ticket, Verdict},
    layer::LayerName,
    tile::TileId,
    tile_set::TileSet,
};
use tokio::sync::watch;

use crate::metrics;

/// Whether spoiled fills are kept out of the cache: off only to prove that checks notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fencing {
    /// They are.
    #[default]
    On,
    /// They are not.
    Off,
}

/// What is cached.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TileKey {
    /// The layer.
    pub layer: LayerName,
    /// The tile.
    pub tile: TileId,
}

/// Whether a client may keep what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// It may, and must ask again before using it.
    Cacheable,
    /// It must not: a purge came in between, or the cache does not know what it has missed.
    NoStore,
}

/// An encoded picture, and what the client may do with it.
#[derive(Clone, Debug)]
pub struct Served {
    /// The encoded picture.
    pub picture: Bytes,
    /// Whether a client may keep it.
    pub freshness: Freshness,
}

/// How the cache stands to the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Nobody follows the journal: nothing may be kept.
    Closed,
    /// Rows wait to be purged.
    Behind,
    /// All that was decided is purged.
    AtEnd,
}

type Outcome<E> = Option<Result<Served, Arc<E>>>;

struct Guarded<E> {
    fence: Fence<TileKey>,
    waiting: BTreeMap<Ticket, watch::Receiver<Outcome<E>>>,
    standing: Standing,
}

/// A cache of encoded pictures, bounded by bytes. `E` is what a render fails with.
pub struct TileCache<E> {
    pictures: Cache<TileKey, Bytes>,
    guarded: Mutex<Guarded<E>>,
    fencing: Fencing,
}

/// A fill ended without an answer: its render panicked.
#[derive(Debug, thiserror::Error)]
#[error("the render was abandoned")]
pub struct Abandoned;

/// What an entry costs besides its picture: key, pointers and the cache's own bookkeeping, about.
const OVERHEAD: u32 = 256;

/// What a request finds.
enum Looked<E> {
    Hit(Served),
    Wait(watch::Receiver<Outcome<E>>),
    Fill(Ticket, watch::Sender<Outcome<E>>, watch::Receiver<Outcome<E>>),
    /// The cache is closed: render for this request alone.
    Bypass,
}

impl<E: From<Abandoned> + Send + Sync + 'static> TileCache<E> {
    /// An empty cache that keeps nothing until it is [opened](Self::open).
    #[must_use]
    pub fn new(max_bytes: u64, fencing: Fencing) -> Self {
        let pictures = Cache::builder()
            .max_capacity(max_bytes)
            .weigher(|_, picture: &Bytes| {
                u32::try_from(picture.len())
                    .unwrap_or(u32::MAX)
                    .saturating_add(OVERHEAD)
            })
            .build();
        let guarded = Guarded {
            fence: Fence::default(),
            waiting: BTreeMap::new(),
            standing: Standing::Closed,
        };
        Self {
            pictures,
            guarded: Mutex::new(guarded),
            fencing,
        }
    }

    /// Serves a tile: from the cache, from a fill under way, or from a new one.
    ///
    /// `render` is called once the fill has its ticket and must not have read the database before. It runs to its end
    /// even if the client goes away, because others may wait for it.
    pub async fn serve<F>(self: &Arc<Self>, key: TileKey, render: impl FnOnce() -> F) -> Result<Served, Arc<E>>
    where
        F: Future<Output = Result<Bytes, E>> + Send + 'static,
    {
        let looked = self.look(&key);
        metrics::cache_request(if matches!(looked, Looked::Hit(_)) {
            "hit"
        } else {
            "miss"
        });
        let filling = match looked {
            Looked::Hit(served) => return Ok(served),
            Looked::Wait(filling) => filling,
            Looked::Fill(ticket, done, filling) => {
                let fill = Fill {
                    cache: Arc::clone(self),
                    key,
                    ticket,
                    is_settled: false,
                };
                let rendering = render();
                tokio::spawn(async move {
                    // Nobody waiting any more is no error.
                    let _ = done.send(Some(fill.settle(rendering.await)));
                });
                filling
            }
            Looked::Bypass => {
                let picture = render().await.map_err(Arc::new)?;
                return Ok(Served {
                    picture,
                    freshness: Freshness::NoStore,
                });
            }
        };
        outcome_of(filling).await
    }

    fn look(&self, key: &TileKey) -> Looked<E> {
        let mut guarded = self.lock();
        if guarded.standing == Standing::Closed {
            return Looked::Bypass;
        }
        if let Some(picture) = self.pictures.get(key) {
            return Looked::Hit(Served {
                picture,
                freshness: guarded.freshness(),
            });
        }
        match guarded.fence.enter(key.clone()) {
            Entry::Wait(ticket) if let Some(filling) = guarded.waiting.get(&ticket) => Looked::Wait(filling.clone()),
            Entry::Wait(_) => Looked::Bypass,
            Entry::Fill(ticket) => {
                let (done, filling) = watch::channel(None);
                guarded.waiting.insert(ticket, filling.clone());
                Looked::Fill(ticket, done, filling)
            }
        }
    }

    /// Starts to keep pictures. The cursor of whoever follows the journal was read before.
    pub fn open(&self) {
        self.lock().standing = Standing::AtEnd;
    }

    /// Forgets everything and keeps nothing until it is opened again.
    pub fn close(&self) {
        let mut guarded = self.lock();
        guarded.standing = Standing::Closed;
        self.drop_all(&mut guarded);
    }

    /// Rows of the journal wait to be purged.
    pub fn fall_behind(&self) {
        self.set_standing(Standing::Behind);
    }

    /// All that was decided is purged.
    pub fn catch_up(&self) {
        self.set_standing(Standing::AtEnd);
    }

    /// Forgets everything, and goes on.
    pub fn empty(&self) {
        let mut guarded = self.lock();
        self.drop_all(&mut guarded);
    }

    /// Purges tiles; says how many pictures were dropped. Tickets are spoiled first, pictures dropped then.
    pub fn purge(&self, stale: &BTreeMap<LayerName, TileSet>) -> u64 {
        let mut guarded = self.lock();
        let is_stale = |key: &TileKey| stale.get(&key.layer).is_some_and(|tiles| tiles.contains(key.tile));
        guarded.fence.spoil(is_stale);
        let n_tiles: u64 = stale.values().map(TileSet::n_tiles).fold(0, u64::saturating_add);
        let dropped = |key: TileKey| u64::from(self.pictures.remove(&key).is_some());
        // Whichever is less: the stale tiles or the cached ones.
        if n_tiles <= self.pictures.entry_count() {
            let tiles = stale.iter().flat_map(|(layer, tiles)| {
                tiles.iter().map(move |tile| TileKey {
                    layer: layer.clone(),
                    tile,
                })
            });
            tiles.map(dropped).sum()
        } else {
            let cached = self.pictures.iter().map(|(key, _)| TileKey::clone(&key));
            cached.filter(is_stale).map(dropped).sum()
        }
    }

    /// One by one under the lock, not `invalidate_all`, which goes by the time of insertion.
    fn drop_all(&self, guarded: &mut Guarded<E>) {
        guarded.fence.spoil(|_| true);
        for (key, _) in &self.pictures {
            self.pictures.invalidate(key.as_ref());
        }
    }

    /// A closed cache stays closed.
    fn set_standing(&self, standing: Standing) {
        let mut guarded = self.lock();
        if guarded.standing != Standing::Closed {
            guarded.standing = standing;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Guarded<E>> {
        // Nothing in the critical sections can panic half way through a change.
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is cached now, for checks that compare it with fresh renders.
    #[must_use]
    pub fn contents(&self) -> Vec<(TileKey, Bytes)> {
        self.pictures
            .iter()
            .map(|(key, picture)| (TileKey::clone(&key), picture))
            .collect()
    }
}

impl<E> Guarded<E> {
    fn freshness(&self) -> Freshness {
        if self.standing == Standing::AtEnd {
            Freshness::Cacheable
        } else {
            Freshness::NoStore
        }
    }
}

async fn outcome_of<E: From<Abandoned>>(mut filling: watch::Receiver<Outcome<E>>) -> Result<Served, Arc<E>> {
    match filling.wait_for(Option::is_some).await {
        Ok(outcome) => outcome.clone().unwrap_or_else(|| Err(Arc::new(E::from(Abandoned)))),
        Err(_) => Err(Arc::new(E::from(Abandoned))),
    }
}

/// A fill under way. Dropped without an answer it gives its ticket back.
struct Fill<E: From<Abandoned> + Send + Sync + 'static> {
    cache: Arc<TileCache<E>>,
    key: TileKey,
    ticket: Ticket,
    is_settled: bool,
}

impl<E: From<Abandoned> + Send + Sync + 'static> Fill<E> {
    /// Asks for the verdict and inserts, in one step.
    fn settle(mut self, rendered: Result<Bytes, E>) -> Result<Served, Arc<E>> {
        self.is_settled = true;
        let mut guarded = self.cache.lock();
        guarded.waiting.remove(&self.ticket);
        let verdict = guarded.fence.settle(&self.key, self.ticket);
        let picture = rendered.map_err(Arc::new)?;
        let is_kept = verdict == Verdict::Keep || self.cache.fencing == Fencing::Off;
        if !is_kept {
            return Ok(Served {
                picture,
                freshness: Freshness::NoStore,
            });
        }
        self.cache.pictures.insert(self.key.clone(), picture.clone());
        Ok(Served {
            picture,
            freshness: guarded.freshness(),
        })
    }
}

impl<E: From<Abandoned> + Send + Sync + 'static> Drop for Fill<E> {
    fn drop(&mut self) {
        if !self.is_settled {
            let mut guarded = self.cache.lock();
            guarded.waiting.remove(&self.ticket);
            // Nothing to keep, whatever the verdict.
            let _ = guarded.fence.settle(&self.key, self.ticket);
        }
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
