//! I5 for geometry: however large a shape is, its tiles take bounded memory, and ranges instead of lists.

#![expect(clippy::unwrap_used, reason = "the settings are known to be right")]

use std::sync::Arc;

use geo_types::{Geometry, LineString, MultiPolygon, Polygon, coord, line_string, polygon};
use peak_alloc::PeakAlloc;
use tilewake_core::{
    cover::CoverLimits,
    event::Changed,
    feature::Shape,
    layer::{Beyond180, Buffer, LayerSettings, Policy},
    staleness::{footprint, stale_tiles},
    tile::TileId,
};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const POLICIES: [Policy; 3] = [Policy::Footprint, Policy::Change, Policy::Pixel];

fn settings(zooms: &str, policy: Policy) -> LayerSettings {
    LayerSettings {
        zooms: zooms.parse().unwrap(),
        buffer: Buffer::DEFAULT,
        policy,
        beyond_180: Beyond180::Both,
    }
}

fn shape(geometry: impl Into<Geometry<f64>>) -> Shape {
    Shape::Geometry(Arc::new(geometry.into()))
}

/// The most memory that was in use at once beyond what was there before, in MiB.
fn peak<T>(work: impl FnOnce() -> T) -> (T, f32) {
    MEMORY.reset_peak_usage();
    let start = MEMORY.current_usage_as_mb();
    let done = work();
    (done, MEMORY.peak_usage_as_mb() - start)
}

/// The tile that a place lies in.
fn tile_at(lon: f64, lat: f64, zoom: u8) -> TileId {
    let (x, y) = tilewake_core::mercator::project(lon, lat);
    let n = f64::from(1u32 << zoom);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a tile of the world"
    )]
    TileId::new(zoom, (x * n) as u32, (y * n) as u32).unwrap()
}

fn half_the_world() -> Polygon<f64> {
    polygon![(x: -170.3, y: -80.1), (x: 10.7, y: -81.2), (x: 12.9, y: 83.3), (x: -171.2, y: 79.9)]
}

fn globe_line() -> LineString<f64> {
    line_string![(x: -179.9, y: -61.3), (x: 0.3, y: 55.5), (x: 179.9, y: -40.1)]
}

/// A million vertices: 20,000 rings of fifty, side by side.
fn many_vertices() -> MultiPolygon<f64> {
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

/// The only test here, because memory is counted for the whole process.
#[test]
fn large_shapes_take_bounded_memory_and_ranges_instead_of_lists() {
    let large = [
        ("half the world", shape(half_the_world()), "0-22", 64.0),
        ("a line round the globe", shape(globe_line()), "0-20", 64.0),
        ("a million vertices", shape(many_vertices()), "0-22", 200.0),
    ];
    for (name, shape, zooms, allowed) in &large {
        for policy in POLICIES {
            let settings = settings(zooms, policy);
            let limits = CoverLimits::default();
            let (tiles, used) = peak(|| stale_tiles(&Shape::Absent, shape, Changed::Both, &settings, limits));
            assert!(
                tiles.ranges().len() <= limits.max_ranges,
                "{name}: {} ranges",
                tiles.ranges().len()
            );
            assert!(used < *allowed, "{name}, {}: {used} MiB", policy.as_str());
            assert!(!tiles.is_empty());
        }
    }
    let tiles = footprint(
        &large[0].1,
        &settings("0-22", Policy::Footprint),
        CoverLimits::default(),
    );
    for zoom in 0..=22 {
        assert!(tiles.contains(tile_at(-90.0, 10.0, zoom)));
        // At zooms 0 and 1 it is in a tile of the polygon's eastern edge.
        assert_eq!(tiles.contains(tile_at(120.0, 10.0, zoom)), zoom < 2);
    }
}
