//! Which tiles an edit makes stale.
//!
//! Pure geometry: no clock, no I/O, no configuration beyond the layer's settings. The answer may hold a tile that did not
//! change, but never misses one that did (I1).

use crate::{
    cover::{Cover, CoverLimits, Outline, Reach, cover},
    event::Changed,
    feature::Shape,
    layer::{LayerSettings, Policy},
    tile_set::TileSet,
};

/// Half a unit of a tile's grid, as a fraction of the tile: as far as snapping to the grid can pull a vertex.
const HALF_UNIT: f64 = 0.5 / 4096.0;

/// The tiles that draw a shape, buffer included, at every zoom of the layer.
///
/// Holds every tile whose buffered box, grown by half a grid unit, the shape meets, and no others unless the limits
/// demand it. A geometry that cannot be drawn ([`check`](crate::edges::check)) may be anywhere.
///
/// ```
/// use std::sync::Arc;
/// use geo_types::{Geometry, point};
/// use tilewake_core::{cover::CoverLimits, feature::Shape, layer::*, staleness::footprint};
///
/// let settings = LayerSettings {
///     zooms: "0-2".parse()?,
///     buffer: Buffer::DEFAULT,
///     policy: Policy::Footprint,
///     beyond_180: Beyond180::Both,
/// };
/// let helsinki = Shape::Geometry(Arc::new(Geometry::from(point!(x: 24.94, y: 60.17))));
/// let tiles = footprint(&helsinki, &settings, CoverLimits::default());
/// assert_eq!(tiles.iter().map(|tile| tile.to_string()).collect::<Vec<_>>(), ["0/0/0", "1/1/0", "2/2/1"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn footprint(shape: &Shape, settings: &LayerSettings, limits: CoverLimits) -> TileSet {
    footprints([shape], settings, limits).tiles
}

/// The tiles that draw any of the shapes.
pub fn footprints<'a>(
    shapes: impl IntoIterator<Item = &'a Shape>,
    settings: &LayerSettings,
    limits: CoverLimits,
) -> Cover {
    let reach = Reach {
        zooms: settings.zooms,
        grow: settings.buffer.fraction() + HALF_UNIT,
    };
    let mut outline = Outline::new(settings.beyond_180, reach.margin());
    for shape in shapes {
        outline.add(shape);
    }
    cover(&outline.into_edges(), reach, limits)
}

/// The stale tiles of an edit whose both shapes are known exactly, by the layer's policy.
#[must_use]
pub fn stale_tiles(
    before: &Shape,
    after: &Shape,
    changed: Changed,
    settings: &LayerSettings,
    limits: CoverLimits,
) -> TileSet {
    match (settings.policy, changed) {
        (Policy::Footprint, _) => footprints([before, after], settings, limits).tiles,
    }
}
