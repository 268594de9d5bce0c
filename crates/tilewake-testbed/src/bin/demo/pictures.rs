//! Pictures of tiles as the server hands them out, and the same from a server whose cache was empty.

use std::{collections::HashMap, net::SocketAddr};

use anyhow::{Result, ensure};
use hyper::body::Bytes;
use indicatif::ProgressBar;
use tilewake_testbed::http::Client;
use tokio::task::JoinSet;

use crate::{area::LayerTile, tilewake::Tilewake};

/// How many ask at once, when it does not matter.
const N_CLIENTS: usize = 16;

/// What each tile draws.
pub(crate) type Pictures = HashMap<LayerTile, Bytes>;

/// Asks for every tile, with so many clients at once.
pub(crate) async fn fetch_all(
    address: SocketAddr,
    tiles: &[LayerTile],
    n_clients: usize,
    bar: ProgressBar,
) -> Result<Pictures> {
    let mut clients = JoinSet::new();
    for share in tiles.chunks(tiles.len().div_ceil(n_clients.max(1)).max(1)) {
        clients.spawn(fetch(address, share.to_vec(), bar.clone()));
    }
    let mut pictures = Pictures::new();
    while let Some(share) = clients.join_next().await {
        pictures.extend(share??);
    }
    bar.finish_and_clear();
    Ok(pictures)
}

async fn fetch(address: SocketAddr, tiles: Vec<LayerTile>, bar: ProgressBar) -> Result<Vec<(LayerTile, Bytes)>> {
    let mut client = Client::connect(address).await?;
    let mut pictures = Vec::with_capacity(tiles.len());
    for tile in tiles {
        pictures.push((tile, picture(&mut client, tile).await?));
        bar.inc(1);
    }
    Ok(pictures)
}

/// Asks for one tile.
pub(crate) async fn picture(client: &mut Client, LayerTile { layer, tile }: LayerTile) -> Result<Bytes> {
    let path = format!("/{layer}/{tile}.mvt");
    let (status, body) = client.get(&path).await?;
    ensure!(
        status.is_success(),
        "{path} was answered with {status}: {}",
        String::from_utf8_lossy(&body)
    );
    Ok(body)
}

/// Asks a server for every tile.
pub(crate) async fn from(server: &Tilewake, tiles: &[LayerTile], bar: ProgressBar) -> Result<Pictures> {
    fetch_all(server.address(), tiles, N_CLIENTS, bar).await
}

/// Every tile from another server, whose cache has never held anything.
pub(crate) async fn fresh(database_url: &str, tiles: &[LayerTile], bar: ProgressBar) -> Result<Pictures> {
    let server = Tilewake::run(database_url, &[]).await?;
    let pictures = from(&server, tiles, bar).await?;
    server.stop().await?;
    Ok(pictures)
}

/// The tiles whose cached picture is not the fresh one.
pub(crate) fn stale(cached: &Pictures, fresh: &Pictures) -> Vec<LayerTile> {
    let mut stale: Vec<_> = cached
        .iter()
        .filter(|(tile, picture)| fresh.get(tile) != Some(picture))
        .map(|(&t, _)| t)
        .collect();
    stale.sort_unstable();
    stale
}

#[cfg(test)]
mod tests {
    use tilewake_core::tile::TileId;

    use super::*;

    #[test]
    fn a_tile_is_stale_when_its_fresh_picture_is_another_or_missing() {
        let tile = |x| LayerTile {
            layer: "roads",
            tile: TileId::new(2, x, 0).unwrap(),
        };
        let pictures = |of: &[(u32, &'static str)]| {
            of.iter()
                .map(|&(x, text)| (tile(x), Bytes::from(text)))
                .collect::<Pictures>()
        };
        let cached = pictures(&[(0, "a"), (1, "b"), (2, "c")]);
        assert_eq!(stale(&cached, &pictures(&[(0, "a"), (1, "B")])), [tile(1), tile(2)]);
    }
}
