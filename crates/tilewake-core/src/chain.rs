//! What is left of an edit when what stayed is taken away: a chain of edges around what changed.
//!
//! The edges of the geometry after the edit are counted up, those before it down, each kind by itself: areas with shells
//! one way and holes the other, lines as they run and with their joints, points. What is left of areas is a closed chain
//! whose winding number is not zero exactly where the area changed. So a tile is stale if it meets an edge of the chain or
//! the chain winds around it, and creation and deletion are the same with one side empty.

mod area;
mod line;
mod parts;
mod path;
mod simple;
mod tally;
mod view;

use geo_types::Coord;

use self::{
    area::Areas,
    parts::{Part, PartKind, Parts, touched},
    path::{Pair, Path, Side},
    tally::Tally,
    view::{Place, View},
};
use crate::{
    cover::{Reading, plane::Edge, with_copies},
    edges::Drawable,
};

/// Edges to be covered. A point is an edge from itself to itself.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    edges: Vec<Edge>,
}

/// An edit of a geometry, as far as it touched it.
#[derive(Debug)]
pub(crate) struct Touched {
    points: Vec<(Path, Side)>,
    lines: Vec<Pair>,
    areas: Areas,
}

impl Touched {
    /// Compares the geometries before and after an edit; `None` where there is no feature.
    pub(crate) fn between(before: Option<Drawable<'_>>, after: Option<Drawable<'_>>, reading: Reading) -> Self {
        let parts = |side: Option<Drawable<'_>>| {
            side.map(|side| Parts::of(side, |lon| reading.longitude(lon)))
                .unwrap_or_default()
        };
        let (before, after) = (parts(before), parts(after));
        let [before, after] = touched(&before, &after);
        let both = |kind| (of_kind(&before, kind), of_kind(&after, kind));
        let (points, lines, areas) = (both(PartKind::Point), both(PartKind::Line), both(PartKind::Area));
        Self {
            points: point_sides(&points.0, &points.1),
            lines: line_pairs(&lines.0, &lines.1),
            areas: Areas::new(&areas.0, &areas.1),
        }
    }

    /// Whether the edit touched nothing that is drawn.
    pub(crate) fn is_empty(&self) -> bool {
        self.points.is_empty() && self.lines.is_empty() && self.areas.is_empty()
    }

    /// The chain of the edit as it is.
    pub(crate) fn exact(&self) -> Chain {
        self.chain(View::Exact)
    }

    /// The chain of the edit on a zoom's grid, without what a picture drops: flat areas, and lines of one point.
    pub(crate) fn on_grid(&self, zoom: u8) -> Chain {
        self.chain(View::Grid(zoom))
    }

    /// The zoom from which on there are no [`thin`](Self::thin) areas.
    pub(crate) fn settled_from(&self) -> u8 {
        self.areas.settled_from()
    }

    /// The chain of what snapping to a zoom's grid changes besides: areas so thin that the grid turns or hides them.
    pub(crate) fn thin(&self, zoom: u8) -> Chain {
        let mut chain = Chain::default();
        self.areas.add_thin(zoom, &mut chain);
        chain
    }

    fn chain(&self, view: View) -> Chain {
        let mut chain = Chain::default();
        self.add_points(view, &mut chain);
        if !self.lines.is_empty() {
            line::add(&self.lines, view, &mut chain);
        }
        self.areas.add(view, &mut chain);
        chain
    }

    fn add_points(&self, view: View, chain: &mut Chain) {
        let mut points = Tally::default();
        for (path, side) in &self.points {
            path.places(view)
                .for_each(|place| points.add(place.key(), side.count()));
        }
        for (key, _) in points.left() {
            chain.push_line(view, Place::of_key(key), Place::of_key(key));
        }
    }
}

fn of_kind<'a>(parts: &[Part<'a>], kind: PartKind) -> Vec<Part<'a>> {
    parts.iter().filter(|part| part.kind() == kind).copied().collect()
}

fn point_sides(before: &[Part<'_>], after: &[Part<'_>]) -> Vec<(Path, Side)> {
    let side = |parts: &[Part<'_>], side| -> Vec<_> {
        parts
            .iter()
            .flat_map(Part::paths)
            .map(|coords| (Path::of(coords), side))
            .collect()
    };
    let mut sides = side(before, Side::Before);
    sides.extend(side(after, Side::After));
    sides
}

fn line_pairs(before: &[Part<'_>], after: &[Part<'_>]) -> Vec<Pair> {
    let n_pairs = before.len().max(after.len());
    (0..n_pairs)
        .map(|i| Pair::new(line(before, i), line(after, i)))
        .collect()
}

fn line<'a>(parts: &[Part<'a>], i: usize) -> Option<&'a [Coord<f64>]> {
    parts.get(i).and_then(|part| part.paths().next())
}

impl Chain {
    /// The edges, with their copies where the world repeats.
    pub(crate) fn edges(&self, margin: f64) -> Vec<Edge> {
        with_copies(&self.edges, margin)
    }

    fn push_line(&mut self, view: View, a: Place, b: Place) {
        self.push_area(view, a, b, 0);
    }

    fn push_area(&mut self, view: View, a: Place, b: Place, weight: i64) {
        let ((ax, ay), (bx, by)) = (view.steps(a), view.steps(b));
        self.edges.push(Edge { ax, ay, bx, by, weight });
    }
}
