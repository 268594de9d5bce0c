//! I5 for geometry: however large a shape is, its tiles take bounded memory, and ranges instead of lists.

#![expect(clippy::unwrap_used, reason = "the shapes are known to be right")]

mod shapes;

use peak_alloc::PeakAlloc;
use tilewake_core::{
    cover::CoverLimits,
    event::Changed,
    feature::Shape,
    layer::Policy,
    staleness::{footprint, stale_tiles},
};

use shapes::large::{POLICIES, globe_line, half_the_world, many_vertices, settings, shape, tile_at};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The most memory that was in use at once beyond what was there before, in MiB.
fn peak<T>(work: impl FnOnce() -> T) -> (T, f32) {
    MEMORY.reset_peak_usage();
    let start = MEMORY.current_usage_as_mb();
    let done = work();
    (done, MEMORY.peak_usage_as_mb() - start)
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
