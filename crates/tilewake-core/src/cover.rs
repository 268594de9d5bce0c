//! Which tiles an outline meets or encloses, at all zooms at once.
//!
//! One descent through the quadtree, a zoom at a time. A cell keeps the edges that meet its buffered box and the winding
//! number around its centre; a cell without edges is all outside, and dropped, or all inside, and from then on a range of
//! the Hilbert curve that is only counted. So the cost grows with the outline and not with the area, nothing recurses,
//! and a limit is kept by stopping a zoom earlier and rounding outwards (I5).

mod outline;
pub(crate) mod plane;

use std::ops::Range;

use crate::{
    layer::Zooms,
    tile::{Curve, first_id},
    tile_set::TileSet,
};
pub(crate) use outline::{Outline, Reading, area_weight, with_copies};
use plane::{Children, Edge, Square, WORLD, margin, tile_width};

/// How large the answer may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoverLimits {
    /// The most ranges of tile ids. Where an exact answer has more, its deepest zooms are rounded outwards to whole
    /// subtrees of a shallower one; at worst it is one range for every zoom. The working memory keeps to a multiple of
    /// this and of the outline's edges.
    pub max_ranges: usize,
}

impl CoverLimits {
    /// An answer of any size.
    pub const UNLIMITED: Self = Self { max_ranges: usize::MAX };

    /// The limits of a zoom after so many ranges, if so many deeper ones follow that may need as many.
    pub(crate) fn left_after(self, n_ranges: usize, n_deeper: u8) -> Self {
        Self {
            max_ranges: self.max_ranges.saturating_sub(n_ranges) / (usize::from(n_deeper) + 1),
        }
    }
}

impl Default for CoverLimits {
    /// 10,000 ranges, some 40 kB in the journal.
    fn default() -> Self {
        Self { max_ranges: 10_000 }
    }
}

/// Tiles, and how exactly they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cover {
    /// The tiles.
    pub tiles: TileSet,
    /// The first zoom that was rounded outwards to keep to the limits.
    pub rounded_from: Option<u8>,
}

impl Cover {
    /// What is in either.
    #[must_use]
    pub(crate) fn union(self, other: &Self) -> Self {
        if other.tiles.is_empty() {
            return self;
        }
        Self {
            tiles: self.tiles.union(&other.tiles),
            rounded_from: self.rounded_from.into_iter().chain(other.rounded_from).min(),
        }
    }

    /// Adds tiles of deeper zooms.
    pub(crate) fn append(&mut self, deeper: &Self) {
        deeper
            .tiles
            .ranges()
            .iter()
            .for_each(|range| self.tiles.append(range.clone()));
        self.rounded_from = self.rounded_from.into_iter().chain(deeper.rounded_from).min();
    }
}

/// Which tiles to look for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    pub(crate) zooms: Zooms,
    /// How far a tile reaches beyond its edge, as a fraction of its width.
    pub(crate) grow: f64,
}

impl Reach {
    /// How far the world's edge tiles reach around to the other end, in steps.
    pub(crate) fn margin(self) -> f64 {
        margin(self.zooms.min(), self.grow)
    }
}

/// The tiles whose grown boxes an edge meets, or which the edges wind around.
pub(crate) fn cover(edges: &[Edge], reach: Reach, limits: CoverLimits) -> Cover {
    let mut descent = Descent::new(edges, reach, limits);
    if let Some(mut level) = descent.start() {
        while level.zoom < reach.zooms.max() {
            match descent.next(&level) {
                Some(next) => level = next,
                None => break,
            }
            descent.emit(&level);
        }
        descent.round(&level);
    }
    Cover {
        tiles: descent.tiles,
        rounded_from: descent.rounded_from,
    }
}

/// A zoom of the descent: its nodes in the order of the curve, and the edges of its cells, one cell after another.
struct Level {
    zoom: u8,
    nodes: Vec<Node>,
    edges: Vec<u32>,
}

enum Node {
    /// A cell that edges meet.
    Cell(Cell),
    /// Places on the curve that are all inside.
    Full(Range<u64>),
}

struct Cell {
    /// The cell's place on the curve of its zoom, and how the curve runs through it.
    place: u64,
    curve: Curve,
    /// The centre, in steps.
    x: f64,
    y: f64,
    /// The winding number around the centre.
    winding: i64,
    /// Where the cell's edges stand in the level.
    edges: Range<usize>,
}

impl Node {
    fn places(&self) -> Range<u64> {
        match self {
            Self::Cell(cell) => cell.place..cell.place + 1,
            Self::Full(places) => places.clone(),
        }
    }
}

struct Descent<'a> {
    edges: &'a [Edge],
    reach: Reach,
    limits: CoverLimits,
    has_areas: bool,
    tiles: TileSet,
    rounded_from: Option<u8>,
}

impl<'a> Descent<'a> {
    fn new(edges: &'a [Edge], reach: Reach, limits: CoverLimits) -> Self {
        Self {
            edges,
            reach,
            limits,
            has_areas: edges.iter().any(|edge| edge.weight != 0),
            tiles: TileSet::new(),
            rounded_from: None,
        }
    }

    /// The tile of zoom 0; nothing if nothing is drawn in it.
    fn start(&mut self) -> Option<Level> {
        let (x, y) = (WORLD / 2.0, WORLD / 2.0);
        let half = WORLD / 2.0 + margin(0, self.reach.grow);
        let edges: Vec<u32> = (0u32..)
            .zip(self.edges)
            .filter(|(_, edge)| edge.meets(Square { x, y, half }))
            .map(|(i, _)| i)
            .collect();
        let winding = plane::winding(self.edges, x, y);
        let node = match (edges.is_empty(), winding) {
            (true, 0) => return None,
            (true, _) => Node::Full(0..1),
            (false, _) => Node::Cell(Cell {
                place: 0,
                curve: Curve::default(),
                x,
                y,
                winding,
                edges: 0..edges.len(),
            }),
        };
        let level = Level {
            zoom: 0,
            nodes: vec![node],
            edges,
        };
        self.emit(&level);
        Some(level)
    }

    /// The next zoom; nothing if there are no cells left to divide, or their children would break the limits.
    fn next(&mut self, level: &Level) -> Option<Level> {
        if !level.nodes.iter().any(|node| matches!(node, Node::Cell(_))) {
            return None;
        }
        let mut next = NextLevel::new(level, self.max_ranges_at(level.zoom + 1), self.max_edges());
        let mut met = Vec::new();
        for node in &level.nodes {
            match node {
                Node::Full(places) => next.push_full(places.start * 4..places.end * 4),
                Node::Cell(cell) => self.divide(cell, level, &mut met, &mut next),
            }
            if next.is_too_large() {
                self.rounded_from = Some((level.zoom + 1).max(self.reach.zooms.min()));
                return None;
            }
        }
        Some(next.level)
    }

    /// Hands a cell's edges on to its children.
    fn divide(&self, cell: &Cell, level: &Level, met: &mut Vec<u8>, next: &mut NextLevel) {
        let width = tile_width(next.level.zoom);
        let children = Children {
            x: cell.x,
            y: cell.y,
            step: width / 2.0,
            half: width / 2.0 + margin(next.level.zoom, self.reach.grow),
        };
        let indices = &level.edges[cell.edges.clone()];
        let edges = indices.iter().map(|i| &self.edges[*i as usize]);
        met.clear();
        met.extend(edges.clone().map(|edge| edge.met(&children)));
        let windings = if self.has_areas {
            children.windings(edges, cell.winding)
        } else {
            [0; 4]
        };
        for (place, (at, curve)) in (cell.place * 4..).zip(cell.curve.children()) {
            let child = usize::from(at.row * 2 + at.column);
            let edges = next.push_edges(
                indices
                    .iter()
                    .zip(met.iter())
                    .filter(|(_, met)| **met & 1 << child != 0)
                    .map(|(i, _)| *i),
            );
            if !edges.is_empty() {
                next.push_cell(Cell {
                    place,
                    curve,
                    x: cell.x + children.step * (f64::from(at.column) * 2.0 - 1.0),
                    y: cell.y + children.step * (f64::from(at.row) * 2.0 - 1.0),
                    winding: windings[child],
                    edges,
                });
            } else if windings[child] != 0 {
                next.push_full(place..place + 1);
            }
        }
    }

    /// How many ranges a zoom may have, if all deeper ones have as many.
    fn max_ranges_at(&self, zoom: u8) -> usize {
        let zooms = self.reach.zooms;
        let n_deeper = zooms.max() - zoom.max(zooms.min());
        self.limits.left_after(self.tiles.ranges().len(), n_deeper).max_ranges
    }

    /// How many edges all cells of a zoom may have together.
    fn max_edges(&self) -> usize {
        self.limits
            .max_ranges
            .saturating_mul(64)
            .saturating_add(self.edges.len() * 8)
    }

    fn emit(&mut self, level: &Level) {
        self.emit_below(level, level.zoom);
    }

    /// Adds the tiles of a level's subtrees at this zoom, if the layer is drawn at it.
    fn emit_below(&mut self, level: &Level, zoom: u8) {
        if !self.reach.zooms.contains(zoom) {
            return;
        }
        let (first, shift) = (first_id(zoom), 2 * (zoom - level.zoom));
        for node in &level.nodes {
            let places = node.places();
            self.tiles
                .append(first + (places.start << shift)..first + (places.end << shift));
        }
    }

    /// Adds the subtrees of the last level that was divided.
    fn round(&mut self, level: &Level) {
        for zoom in level.zoom + 1..=self.reach.zooms.max() {
            self.emit_below(level, zoom);
        }
    }
}

/// A level that is being built.
struct NextLevel {
    level: Level,
    n_ranges: usize,
    end: Option<u64>,
    max_ranges: usize,
    max_edges: usize,
}

impl NextLevel {
    fn new(above: &Level, max_ranges: usize, max_edges: usize) -> Self {
        let level = Level {
            zoom: above.zoom + 1,
            nodes: Vec::with_capacity(above.nodes.len() * 2),
            edges: Vec::with_capacity(above.edges.len() * 2),
        };
        Self {
            level,
            n_ranges: 0,
            end: None,
            max_ranges,
            max_edges,
        }
    }

    fn push_edges(&mut self, edges: impl Iterator<Item = u32>) -> Range<usize> {
        let start = self.level.edges.len();
        self.level.edges.extend(edges);
        start..self.level.edges.len()
    }

    fn push_cell(&mut self, cell: Cell) {
        self.count(cell.place..cell.place + 1);
        self.level.nodes.push(Node::Cell(cell));
    }

    fn push_full(&mut self, places: Range<u64>) {
        self.count(places.clone());
        match self.level.nodes.last_mut() {
            Some(Node::Full(last)) if last.end == places.start => last.end = places.end,
            _ => self.level.nodes.push(Node::Full(places)),
        }
    }

    fn count(&mut self, places: Range<u64>) {
        self.n_ranges += usize::from(self.end != Some(places.start));
        self.end = Some(places.end);
    }

    fn is_too_large(&self) -> bool {
        self.n_ranges > self.max_ranges || self.level.edges.len() > self.max_edges
    }
}
