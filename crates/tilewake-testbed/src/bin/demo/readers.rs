//! Readers who keep asking for tiles at random while the map is edited.
//!
//! They are what makes stale tiles possible at all: a tile that nobody asks for again after its purge cannot be wrong.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use tilewake_testbed::http::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{area::LayerTile, pictures::picture};

const N_READERS: usize = 8;
/// The longest pause between two questions of one reader, on average half of it.
const PAUSE: Duration = Duration::from_millis(30);

pub(crate) struct Readers {
    tasks: JoinSet<Result<()>>,
    stop: CancellationToken,
    n_reads: Arc<AtomicU64>,
}

impl Readers {
    /// Half of the questions are for the crowded tiles.
    pub(crate) fn start(
        address: SocketAddr,
        tiles: &[LayerTile],
        crowded: &[LayerTile],
        random: &mut fastrand::Rng,
    ) -> Self {
        let mut readers = Self {
            tasks: JoinSet::new(),
            stop: CancellationToken::new(),
            n_reads: Arc::default(),
        };
        for _ in 0..N_READERS {
            let among = [tiles.to_vec(), crowded.to_vec()];
            let (random, n_reads) = (random.fork(), Arc::clone(&readers.n_reads));
            let stop = readers.stop.clone();
            readers.tasks.spawn(async move {
                stop.run_until_cancelled(read(address, among, random, n_reads))
                    .await
                    .unwrap_or(Ok(()))
            });
        }
        readers
    }

    /// Ends them and says how often they asked.
    pub(crate) async fn stop(mut self) -> Result<u64> {
        self.stop.cancel();
        while let Some(reader) = self.tasks.join_next().await {
            reader??;
        }
        Ok(self.n_reads.load(Ordering::Relaxed))
    }
}

async fn read(
    address: SocketAddr,
    among: [Vec<LayerTile>; 2],
    mut random: fastrand::Rng,
    n_reads: Arc<AtomicU64>,
) -> Result<()> {
    let mut client = Client::connect(address).await?;
    loop {
        if let Some(&tile) = random.choice(&among).and_then(|tiles| random.choice(tiles)) {
            picture(&mut client, tile).await?;
        }
        n_reads.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(PAUSE.mul_f64(random.f64())).await;
    }
}
