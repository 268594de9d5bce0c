//! Which tiles the demo asks for: every tile of the map's area and the ring of tiles around it, at every zoom.

use tilewake_core::{layer::Zooms, mercator::project, tile::TileId};

use crate::{
    map::Feature,
    tables::{TABLES, zooms},
};

/// A tile of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LayerTile {
    pub(crate) layer: &'static str,
    pub(crate) tile: TileId,
}

/// The tiles of all layers.
pub(crate) fn tiles(map: &[Feature]) -> Vec<LayerTile> {
    of_all_layers(&with_ring(&vertices(map), zooms()))
}

/// The tiles of all layers in the middle of the map that hold much of it: most edits purge them, so they are where races
/// are to be had.
pub(crate) fn crowded(map: &[Feature]) -> Vec<LayerTile> {
    const HOLDS_MUCH: u8 = 14;
    let (x, y) = extent(&vertices(map));
    let middle = |(from, to): (f64, f64)| (f64::midpoint(from, to), f64::midpoint(from, to));
    let tiles = zooms()
        .iter()
        .filter(|&z| z <= HOLDS_MUCH)
        .filter_map(|z| TileId::new(z, *cells(middle(x), z).start(), *cells(middle(y), z).start()));
    of_all_layers(&tiles.collect::<Vec<_>>())
}

/// The deep tiles that hold these places: layer, and metres of Web Mercator. Deep ones are drawn in no time.
pub(crate) fn tiles_over(places: &[(&'static str, f64, f64)]) -> Vec<LayerTile> {
    /// Half of the world's width.
    const HALF: f64 = 20_037_508.342_789_244;
    const DEEP: u8 = 12;
    let unit = |metres: f64| (metres / (2.0 * HALF) + 0.5, metres / (2.0 * HALF) + 0.5);
    let holding = |&(layer, x, y): &(&'static str, f64, f64)| {
        zooms().iter().filter(|&z| z >= DEEP).filter_map(move |z| {
            let tile = TileId::new(z, *cells(unit(x), z).start(), *cells(unit(-y), z).start())?;
            Some(LayerTile { layer, tile })
        })
    };
    places.iter().flat_map(holding).collect()
}

fn of_all_layers(tiles: &[TileId]) -> Vec<LayerTile> {
    let of_layer = |layer| tiles.iter().map(move |&tile| LayerTile { layer, tile });
    TABLES.iter().flat_map(|table| of_layer(table.layer)).collect()
}

fn vertices(map: &[Feature]) -> Vec<(f64, f64)> {
    map.iter().flat_map(Feature::vertices).collect()
}

/// From west to east and from north to south, in the unit square.
fn extent(places: &[(f64, f64)]) -> ((f64, f64), (f64, f64)) {
    let (xs, ys): (Vec<f64>, Vec<f64>) = places.iter().map(|&(lon, lat)| project(lon, lat)).unzip();
    let ends = |values: &[f64]| {
        values
            .iter()
            .fold((f64::MAX, f64::MIN), |(a, b), &v| (a.min(v), b.max(v)))
    };
    (ends(&xs), ends(&ys))
}

/// The tiles that hold the places' bounding box, and those around them, as far as they exist.
fn with_ring(places: &[(f64, f64)], zooms: Zooms) -> Vec<TileId> {
    let (x, y) = extent(places);
    let ring = |ends, z| cells(ends, z).start().saturating_sub(1)..=cells(ends, z).end() + 1;
    let mut tiles = Vec::new();
    for z in zooms.iter() {
        for column in ring(x, z) {
            tiles.extend(ring(y, z).filter_map(|row| TileId::new(z, column, row)));
        }
    }
    tiles
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the map lies well inside the world"
)]
fn cells((from, to): (f64, f64), zoom: u8) -> std::ops::RangeInclusive<u32> {
    let n = f64::from(1u32 << zoom);
    (from * n) as u32..=(to * n) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_asked_for_with_its_eight_neighbours_as_far_as_they_exist() {
        let zooms_of = |min, max| Zooms::new(min, max).unwrap();
        assert_eq!(with_ring(&[(24.94, 60.17)], zooms_of(0, 0)).len(), 1);
        assert_eq!(with_ring(&[(24.94, 60.17)], zooms_of(1, 1)).len(), 4);
        assert_eq!(with_ring(&[(24.94, 60.17)], zooms_of(9, 10)).len(), 18);
    }
}
