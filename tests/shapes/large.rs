//! Shapes larger than anything real, and how they are looked at.

use std::sync::Arc;

use geo_types::{Geometry, LineString, MultiPolygon, Polygon, coord, line_string, polygon};
use tilewake_core::{
    feature::Shape,
    layer::{Beyond180, Buffer, LayerSettings, Policy},
    mercator::project,
    tile::TileId,
};

pub(crate) const POLICIES: [Policy; 3] = [Policy::Footprint, Policy::Change, Policy::Pixel];

pub(crate) fn settings(zooms: &str, policy: Policy) -> LayerSettings {
    LayerSettings {
        zooms: zooms.parse().unwrap(),
        buffer: Buffer::DEFAULT,
        policy,
        beyond_180: Beyond180::Both,
    }
}

pub(crate) fn shape(geometry: impl Into<Geometry<f64>>) -> Shape {
    Shape::Geometry(Arc::new(geometry.into()))
}

/// The tile that a place lies in.
pub(crate) fn tile_at(lon: f64, lat: f64, zoom: u8) -> TileId {
    let (x, y) = project(lon, lat);
    let n = f64::from(1u32 << zoom);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a tile of the world"
    )]
    TileId::new(zoom, (x * n) as u32, (y * n) as u32).unwrap()
}

pub(crate) fn half_the_world() -> Polygon<f64> {
    polygon![(x: -170.3, y: -80.1), (x: 10.7, y: -81.2), (x: 12.9, y: 83.3), (x: -171.2, y: 79.9)]
}

pub(crate) fn globe_line() -> LineString<f64> {
    line_string![(x: -179.9, y: -61.3), (x: 0.3, y: 55.5), (x: 179.9, y: -40.1)]
}

/// A million vertices: 20,000 rings of fifty, side by side.
pub(crate) fn many_vertices() -> MultiPolygon<f64> {
    let ring = |i: u32| -> LineString<f64> {
        let centre = coord! { x: f64::from(i % 200) * 1.7 - 170.0, y: f64::from(i / 200) * 1.6 - 80.0 };
        let at = |k: u32| {
            let angle = f64::from(k) / 50.0 * std::f64::consts::TAU;
            let radius = 0.5 + 0.2 * f64::from(k % 3);
            centre + coord! { x: radius * angle.cos(), y: radius * angle.sin() }
        };
        (0..50).map(at).collect()
    };
    (0..20_000).map(|i| Polygon::new(ring(i), vec![])).collect()
}
