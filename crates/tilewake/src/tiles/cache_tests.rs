//! The cache under held renders: a channel lets each go when the test says so, and nothing sleeps.

use std::sync::atomic::{AtomicUsize, Ordering};

use tilewake_core::layer::Zooms;
use tokio::{sync::oneshot, task::JoinHandle};

use super::*;

type Cache = Arc<TileCache<Abandoned>>;

fn open_cache(fencing: Fencing) -> Cache {
    let cache = Arc::new(TileCache::new(1 << 20, fencing));
    cache.open();
    cache
}

fn key(x: u32) -> TileKey {
    TileKey {
        layer: LayerName::new("roads").unwrap(),
        tile: TileId::new(2, x, 0).unwrap(),
    }
}

fn stale(keys: &[TileKey]) -> BTreeMap<LayerName, TileSet> {
    let tiles = keys.iter().map(|key| key.tile).collect();
    BTreeMap::from([(LayerName::new("roads").unwrap(), tiles)])
}

/// A request whose render has read the database and waits to be let go with what it drew.
struct Held {
    let_go: oneshot::Sender<&'static str>,
    served: JoinHandle<Result<Served, Arc<Abandoned>>>,
}

impl Held {
    async fn begin(cache: &Cache, key: TileKey) -> Self {
        let (let_go, held) = oneshot::channel();
        let (has_begun, begun) = oneshot::channel();
        let cache = Arc::clone(cache);
        let served = tokio::spawn(async move {
            let render = || {
                has_begun.send(()).unwrap();
                async { Ok(Bytes::from(held.await.map_err(|_| Abandoned)?)) }
            };
            cache.serve(key, render).await
        });
        begun.await.unwrap();
        Self { let_go, served }
    }

    async fn finish(self, drawn: &'static str) -> Served {
        self.let_go.send(drawn).unwrap();
        self.served.await.unwrap().unwrap()
    }
}

async fn ask(cache: &Cache, key: TileKey, drawn: &'static str) -> Served {
    cache
        .serve(key, || async move { Ok(Bytes::from(drawn)) })
        .await
        .unwrap()
}

#[tokio::test]
async fn a_picture_is_kept_until_it_is_purged() {
    let cache = open_cache(Fencing::On);
    assert_eq!(ask(&cache, key(0), "old").await.freshness, Freshness::Cacheable);
    assert_eq!(ask(&cache, key(0), "new").await.picture, "old");
    assert_eq!(cache.purge(&stale(&[key(0), key(1)])), 1);
    assert_eq!(ask(&cache, key(0), "new").await.picture, "new");
}

#[tokio::test]
async fn a_purge_of_more_than_is_cached_drops_just_what_is_stale() {
    let cache = open_cache(Fencing::On);
    ask(&cache, key(0), "old").await;
    let other = TileKey {
        layer: LayerName::new("areas").unwrap(),
        ..key(0)
    };
    ask(&cache, other.clone(), "old").await;
    let all = BTreeMap::from([(LayerName::new("roads").unwrap(), TileSet::everything(Zooms::ALL))]);
    assert_eq!(cache.purge(&all), 1);
    assert_eq!(ask(&cache, key(0), "new").await.picture, "new");
    assert_eq!(ask(&cache, other, "new").await.picture, "old");
}

#[tokio::test]
async fn a_picture_that_a_purge_overtook_is_served_once_and_not_kept() {
    let cache = open_cache(Fencing::On);
    let slow = Held::begin(&cache, key(0)).await;
    cache.purge(&stale(&[key(0)]));
    let served = slow.finish("old").await;
    assert_eq!(
        (&served.picture[..], served.freshness),
        (&b"old"[..], Freshness::NoStore)
    );
    assert_eq!(ask(&cache, key(0), "new").await.picture, "new");
}

/// The opposite of the test before: without the fence, the ghost is there.
#[tokio::test]
async fn without_the_fence_a_slow_render_puts_the_old_picture_back() {
    let cache = open_cache(Fencing::Off);
    let slow = Held::begin(&cache, key(0)).await;
    cache.purge(&stale(&[key(0)]));
    slow.finish("old").await;
    assert_eq!(ask(&cache, key(0), "new").await.picture, "old");
}

#[tokio::test]
async fn a_purge_of_other_tiles_spoils_nothing() {
    let cache = open_cache(Fencing::On);
    let slow = Held::begin(&cache, key(0)).await;
    cache.purge(&stale(&[key(1)]));
    assert_eq!(slow.finish("old").await.freshness, Freshness::Cacheable);
    assert_eq!(ask(&cache, key(0), "new").await.picture, "old");
}

#[tokio::test]
async fn requests_for_one_tile_wait_for_one_fill() {
    let cache = open_cache(Fencing::On);
    let n_renders = Arc::new(AtomicUsize::new(0));
    let first = Held::begin(&cache, key(0)).await;
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let (cache, n_renders) = (Arc::clone(&cache), Arc::clone(&n_renders));
            tokio::spawn(async move {
                let render = || {
                    n_renders.fetch_add(1, Ordering::Relaxed);
                    async { Ok(Bytes::from("another")) }
                };
                cache.serve(key(0), render).await.unwrap().picture
            })
        })
        .collect();
    first.finish("drawn").await;
    for picture in waiting {
        assert_eq!(picture.await.unwrap(), "drawn");
    }
    assert_eq!(n_renders.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn behind_a_spoiled_fill_a_new_one_starts_and_is_the_one_that_is_kept() {
    let cache = open_cache(Fencing::On);
    let spoiled = Held::begin(&cache, key(0)).await;
    cache.purge(&stale(&[key(0)]));
    let fresh = Held::begin(&cache, key(0)).await;
    assert_eq!(fresh.finish("new").await.freshness, Freshness::Cacheable);
    assert_eq!(spoiled.finish("old").await.freshness, Freshness::NoStore);
    assert_eq!(ask(&cache, key(0), "newer").await.picture, "new");
}

#[tokio::test]
async fn a_cache_that_is_behind_lets_no_client_keep_anything() {
    let cache = open_cache(Fencing::On);
    ask(&cache, key(0), "drawn").await;
    cache.fall_behind();
    assert_eq!(ask(&cache, key(0), "").await.freshness, Freshness::NoStore);
    assert_eq!(ask(&cache, key(1), "").await.freshness, Freshness::NoStore);
    cache.catch_up();
    assert_eq!(ask(&cache, key(0), "").await.freshness, Freshness::Cacheable);
}

#[tokio::test]
async fn a_closed_cache_keeps_nothing_and_has_forgotten_everything() {
    let cache = open_cache(Fencing::On);
    ask(&cache, key(0), "old").await;
    let slow = Held::begin(&cache, key(1)).await;
    cache.close();
    cache.catch_up();
    assert_eq!(slow.finish("old").await.freshness, Freshness::NoStore);
    assert_eq!(ask(&cache, key(0), "new").await.picture, "new");
    assert_eq!(ask(&cache, key(0), "newer").await.picture, "newer");
    cache.open();
    assert_eq!(ask(&cache, key(1), "new").await.picture, "new");
}

#[tokio::test]
async fn a_failed_render_fails_all_who_wait_and_the_next_request_tries_again() {
    let cache = open_cache(Fencing::On);
    let failing = Held::begin(&cache, key(0)).await;
    drop(failing.let_go);
    assert!(failing.served.await.unwrap().is_err());
    assert_eq!(ask(&cache, key(0), "drawn").await.picture, "drawn");
}

#[tokio::test]
async fn a_render_that_panics_gives_its_ticket_back() {
    let cache = open_cache(Fencing::On);
    let panicking = || async { panic!("a render that panics on purpose") };
    assert!(cache.serve(key(0), panicking).await.is_err());
    assert_eq!(ask(&cache, key(0), "drawn").await.picture, "drawn");
}
