//! Which tiles an outline meets or encloses, at all zooms at once.
//!
//! One descent through the quadtree, a zoom at a time. A cell keeps the edges that meet its buffered box and the winding
//! number around its centre; a cell without edges is all outside, and dropped, or all inside, and from then on a range of
//! the Hilbert curve that is only counted. So the cost grows with the outline and not with the area, nothing recurses,
//! and a limit is kept by stopping a zoom earlier and rounding outwards (I5).

mod outline;
pub(crate) mod plane;

use std::{mem, ops::Range};

use crate::{
    layer::Zooms,
    tile::{Curve, Quadrant, first_id},
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
    if edges.is_empty() {
        return Cover::default();
    }
    let mut descent = Descent::new(edges, reach, limits);
    if let Some(mut level) = descent.start() {
        let mut spare = Level::default();
        while level.zoom < reach.zooms.max() {
            let Some(next) = descent.next(&level, mem::take(&mut spare)) else {
                break;
            };
            spare = mem::replace(&mut level, next);
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
#[derive(Default)]
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

    /// The deepest tile that all edges are in and no other tile of its zoom draws; those above it are stale. Nothing if
    /// nothing is drawn in the world.
    fn start(&mut self) -> Option<Level> {
        let Start {
            zoom,
            place,
            curve,
            x,
            y,
        } = self.narrow();
        let half = tile_width(zoom) / 2.0 + margin(zoom, self.reach.grow);
        let edges: Vec<u32> = (0u32..)
            .zip(self.edges)
            .filter(|(_, edge)| zoom > 0 || edge.meets(Square { x, y, half }))
            .map(|(i, _)| i)
            .collect();
        let winding = plane::winding(self.edges, x, y);
        let node = match (edges.is_empty(), winding) {
            (true, 0) => return None,
            (true, _) => Node::Full(0..1),
            (false, _) => Node::Cell(Cell {
                place,
                curve,
                x,
                y,
                winding,
                edges: 0..edges.len(),
            }),
        };
        let level = Level {
            zoom,
            nodes: vec![node],
            edges,
        };
        self.emit(&level);
        Some(level)
    }

    /// Goes down as long as the box around all edges lies in one child and out of the others' reach, without looking at
    /// the edges themselves.
    fn narrow(&mut self) -> Start {
        let mut at = Start {
            zoom: 0,
            place: 0,
            curve: Curve::default(),
            x: WORLD / 2.0,
            y: WORLD / 2.0,
        };
        let bounds = Bounds::of(self.edges);
        while at.zoom < self.reach.zooms.max() {
            let width = tile_width(at.zoom + 1);
            let margin = margin(at.zoom + 1, self.reach.grow);
            let (column, row) = (
                side_of(at.x, bounds.west, bounds.east, width, margin),
                side_of(at.y, bounds.north, bounds.south, width, margin),
            );
            let (Some(column), Some(row)) = (column, row) else {
                break;
            };
            if self.reach.zooms.contains(at.zoom) {
                let id = first_id(at.zoom) + at.place;
                self.tiles.append(id..id + 1);
            }
            let child = Quadrant { column, row };
            let order = at.curve.children();
            let nth = order.iter().position(|(quadrant, _)| *quadrant == child).unwrap_or(0);
            at = Start {
                zoom: at.zoom + 1,
                place: at.place * 4 + nth as u64,
                curve: order[nth].1,
                x: at.x + (f64::from(column) - 0.5) * width,
                y: at.y + (f64::from(row) - 0.5) * width,
            };
        }
        at
    }

    /// The next zoom, in the memory of a spare level; nothing if there are no cells left to divide, or their children would
    /// break the limits.
    fn next(&mut self, level: &Level, spare: Level) -> Option<Level> {
        if !level.nodes.iter().any(|node| matches!(node, Node::Cell(_))) {
            return None;
        }
        let zoom = level.zoom + 1;
        let mut next = NextLevel::new(spare, zoom, self.max_ranges_at(zoom), self.max_edges());
        let mut met = Vec::new();
        for node in &level.nodes {
            match node {
                Node::Full(places) => next.push_full(places.start * 4..places.end * 4),
                Node::Cell(cell) if zoom == self.reach.zooms.max() => self.divide_last(cell, level, &mut next),
                Node::Cell(cell) => self.divide(cell, level, &mut met, &mut next),
            }
            if next.is_too_large() {
                self.rounded_from = Some(zoom.max(self.reach.zooms.min()));
                return None;
            }
        }
        Some(next.level)
    }

    /// Hands a cell's edges on to its children.
    fn divide(&self, cell: &Cell, level: &Level, met: &mut Vec<u8>, next: &mut NextLevel) {
        let children = self.children(cell, next.level.zoom);
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

    /// The same for the deepest zoom, where nothing is handed on: looks at no more edges than it takes to meet all four.
    fn divide_last(&self, cell: &Cell, level: &Level, next: &mut NextLevel) {
        let children = self.children(cell, next.level.zoom);
        let edges = level.edges[cell.edges.clone()].iter().map(|i| &self.edges[*i as usize]);
        let mut met = 0;
        for edge in edges.clone() {
            met |= edge.met(&children);
            if met == 0b1111 {
                return next.push_full(cell.place * 4..cell.place * 4 + 4);
            }
        }
        let windings = if self.has_areas {
            children.windings(edges, cell.winding)
        } else {
            [0; 4]
        };
        for (place, (at, _)) in (cell.place * 4..).zip(cell.curve.children()) {
            let child = usize::from(at.row * 2 + at.column);
            if met & 1 << child != 0 || windings[child] != 0 {
                next.push_full(place..place + 1);
            }
        }
    }

    fn children(&self, cell: &Cell, zoom: u8) -> Children {
        let width = tile_width(zoom);
        Children {
            x: cell.x,
            y: cell.y,
            step: width / 2.0,
            half: width / 2.0 + margin(zoom, self.reach.grow),
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

/// The tile that a descent starts with.
struct Start {
    zoom: u8,
    place: u64,
    curve: Curve,
    x: f64,
    y: f64,
}

/// The box around all edges, in steps.
struct Bounds {
    west: f64,
    east: f64,
    north: f64,
    south: f64,
}

impl Bounds {
    fn of(edges: &[Edge]) -> Self {
        let nowhere = Self {
            west: f64::INFINITY,
            east: f64::NEG_INFINITY,
            north: f64::INFINITY,
            south: f64::NEG_INFINITY,
        };
        edges.iter().fold(nowhere, |bounds, edge| Self {
            west: bounds.west.min(edge.ax.min(edge.bx)),
            east: bounds.east.max(edge.ax.max(edge.bx)),
            north: bounds.north.min(edge.ay.min(edge.by)),
            south: bounds.south.max(edge.ay.max(edge.by)),
        })
    }
}

/// In which child along one axis all of `low..=high` lies, in its tile and out of the other one's reach: 0 or 1, if in one.
fn side_of(middle: f64, low: f64, high: f64, width: f64, margin: f64) -> Option<u8> {
    if low >= middle - width && high < middle - margin {
        Some(0)
    } else if low > middle + margin && high <= middle + width {
        Some(1)
    } else {
        None
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
    fn new(spare: Level, zoom: u8, max_ranges: usize, max_edges: usize) -> Self {
        let mut level = Level { zoom, ..spare };
        level.nodes.clear();
        level.edges.clear();
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
