//! Which tiles an edit makes stale.
//!
//! Pure geometry: no clock, no I/O, no configuration beyond the layer's settings. The answer may hold a tile that did not
//! change, but never misses one that did (I1).

use crate::{
    chain::{Chain, Touched},
    cover::{Cover, CoverLimits, Outline, Reach, Reading, cover},
    edges::Drawable,
    event::Changed,
    feature::Shape,
    layer::{LayerSettings, Policy, Zooms},
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
    stale_cover(before, after, changed, settings, limits).tiles
}

/// The same, with how exactly they are known.
///
/// What cannot be compared edge by edge, a box or a collection, is a footprint edit under every policy. So is an edit of
/// attributes; under `pixel`, in the tiles where the snapped shape is drawn at all.
#[must_use]
pub fn stale_cover(
    before: &Shape,
    after: &Shape,
    changed: Changed,
    settings: &LayerSettings,
    limits: CoverLimits,
) -> Cover {
    let compare = match (settings.policy, changed) {
        (Policy::Footprint, _) | (Policy::Change, Changed::Attributes | Changed::Both) => None,
        (Policy::Change | Policy::Pixel, _) => Comparable::of(before).zip(Comparable::of(after)),
    };
    let Some((Comparable(old), Comparable(new))) = compare else {
        return footprints([before, after], settings, limits);
    };
    let edit = |before, after| Edit {
        before,
        after,
        settings,
        limits,
    };
    match (settings.policy, changed) {
        (Policy::Pixel, Changed::Geometry) => edit(old, new).pixel(),
        (Policy::Pixel, _) if before == after => edit(None, new).pixel(),
        (Policy::Pixel, _) => edit(None, old).pixel().union(&edit(None, new).pixel()),
        _ => edit(old, new).change(),
    }
}

/// A shape that can be compared with another one edge by edge: nothing, or a geometry that is no collection.
struct Comparable<'a>(Option<Drawable<'a>>);

impl<'a> Comparable<'a> {
    fn of(shape: &'a Shape) -> Option<Self> {
        match shape {
            Shape::Absent => Some(Self(None)),
            Shape::Box(_) => None,
            Shape::Geometry(geometry) => match Drawable::new(geometry) {
                Ok(drawable) if !drawable.is_collection() => Some(Self(Some(drawable))),
                _ => None,
            },
        }
    }
}

/// An edit of geometry under a policy that compares edges.
struct Edit<'a> {
    before: Option<Drawable<'a>>,
    after: Option<Drawable<'a>>,
    settings: &'a LayerSettings,
    limits: CoverLimits,
}

impl Edit<'_> {
    fn change(&self) -> Cover {
        let zooms = self.settings.zooms;
        let covers = self.touched().map(|touched| self.changed(&touched, zooms, self.limits));
        covers.reduce(|all, cover| all.union(&cover)).unwrap_or_default()
    }

    /// The tiles of some zooms in which what was touched differs.
    fn changed(&self, touched: &Touched, zooms: Zooms, limits: CoverLimits) -> Cover {
        let grow = self.settings.buffer.fraction() + HALF_UNIT;
        let cover = |chain: &Chain, zooms: Zooms| {
            let reach = Reach { zooms, grow };
            cover(&chain.edges(reach.margin()), reach, limits)
        };
        let coarse = zooms.iter().take_while(|zoom| *zoom < touched.settled_from());
        let thin = coarse.map(|zoom| cover(&touched.thin(zoom), Zooms::only(zoom)));
        thin.fold(cover(&touched.exact(), zooms), |all, thin| all.union(&thin))
    }

    fn pixel(&self) -> Cover {
        let covers = self.touched().map(|touched| self.seen(&touched));
        covers.reduce(|all, cover| all.union(&cover)).unwrap_or_default()
    }

    /// The tiles in which what was touched is seen to differ on each zoom's grid. From a zoom on that breaks the limits,
    /// deeper grids would be rounded away as well, and are not looked at.
    fn seen(&self, touched: &Touched) -> Cover {
        let zooms = self.settings.zooms;
        let grow = self.settings.buffer.fraction();
        let mut found = Cover::default();
        for zoom in zooms.iter() {
            let n_ranges = found.tiles.ranges().len();
            if found.rounded_from.is_some() {
                let limits = self.limits.left_after(n_ranges, 0);
                found.append(&self.changed(touched, zooms.from(zoom), limits));
                break;
            }
            let reach = Reach {
                zooms: Zooms::only(zoom),
                grow,
            };
            let limits = self.limits.left_after(n_ranges, zooms.max() - zoom);
            found.append(&cover(&touched.on_grid(zoom).edges(reach.margin()), reach, limits));
        }
        found
    }

    /// What the edit touched, in each reading of longitudes.
    fn touched(&self) -> impl Iterator<Item = Touched> {
        let is_beyond_180 = self.before.iter().chain(&self.after).any(|side| side.is_beyond_180());
        Reading::all(is_beyond_180, self.settings.beyond_180)
            .iter()
            .map(|reading| Touched::between(self.before, self.after, *reading))
            .filter(|touched| !touched.is_empty())
    }
}
