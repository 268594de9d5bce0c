//! The policy `change` against brute force: every tile near an edit is looked at alone, before and after.
//!
//! What a tile holds is found by clipping all edges to its box, and by asking whether its centre is inside. No edges are
//! taken off one another, and no chain is followed.

#![expect(clippy::unwrap_used, reason = "the settings are known to be right")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of tiles are whole and small enough"
)]

mod shapes;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use geo_types::{Coord, Geometry, MultiLineString, MultiPoint, MultiPolygon, Point, Polygon};
use proptest::{collection::vec, prelude::*, sample::Index};
use shapes::{
    Segment, View, clip,
    edits::{area_edit, edited, touch, touched},
    is_inside, place, segments, star, stars, view,
};
use tilewake_core::{
    cover::CoverLimits,
    event::Changed,
    feature::Shape,
    layer::{Beyond180, Buffer, LayerSettings, Policy},
    staleness::stale_tiles,
};

const HALF_UNIT: f64 = 0.5 / 4096.0;

/// How surely a tile's box is touched is left open within this fraction of a tile.
const TOUCH: f64 = 1e-5;

type Tiles = BTreeSet<(u8, u32, u32)>;
type Key = [u64; 4];

/// What is to be drawn, projected.
#[derive(Clone, Default)]
struct Drawn {
    areas: Vec<Vec<Vec<Segment>>>,
    lines: Vec<Vec<Segment>>,
    points: Vec<Segment>,
}

/// How closely two pictures are compared.
#[derive(Clone, Copy, PartialEq)]
enum Eye {
    /// Sees outlines without direction, and inside or outside: what every renderer shows.
    Sharp,
    /// Sees which way rings and lines run, and how often an outline winds around: what an answer may call different.
    Suspicious,
}

/// What a tile holds. Edges are told by their ends, so that the same edge is the same after an edit.
#[derive(Debug, Default, PartialEq)]
struct Content {
    outline: BTreeMap<Key, usize>,
    inside: i32,
    paths: Vec<Vec<Key>>,
    points: Vec<Key>,
}

impl Drawn {
    fn of(geometry: Option<&Geometry<f64>>) -> Self {
        let mut drawn = Self::default();
        let rings = |polygon: &Polygon<f64>| -> Vec<_> {
            let rings = std::iter::once(polygon.exterior()).chain(polygon.interiors());
            rings.map(|ring| segments(&ring.0)).collect()
        };
        match geometry {
            None => {}
            Some(Geometry::MultiPoint(points)) => drawn.points = points.iter().flat_map(|p| segments(&[p.0])).collect(),
            Some(Geometry::MultiLineString(lines)) => {
                drawn.lines = lines.iter().map(|line| segments(&distinct(&line.0))).collect();
            }
            Some(Geometry::MultiPolygon(areas)) => drawn.areas = areas.iter().map(rings).collect(),
            Some(other) => panic!("not used here: {other:?}"),
        }
        drawn
    }

    fn ends(&self) -> impl Iterator<Item = Coord<f64>> {
        let edges = self
            .areas
            .iter()
            .flatten()
            .chain(&self.lines)
            .flatten()
            .chain(&self.points);
        edges.flat_map(|(a, b)| [*a, *b])
    }

    fn content(&self, centre: Coord<f64>, half: f64, eye: Eye) -> Content {
        let meets = |edge: &Segment| clip(*edge, centre, half).is_some();
        let mut content = Content::default();
        for area in &self.areas {
            let depths = area.iter().enumerate().map(|(i, ring)| depth(ring, i > 0, centre, eye));
            content.inside += match eye {
                Eye::Sharp => i32::from(depths.sum::<i32>() == 1),
                Eye::Suspicious => depths.sum(),
            };
            for (i, ring) in area.iter().enumerate() {
                for edge in ring.iter().filter(|edge| meets(edge)) {
                    *content.outline.entry(outline_key(*edge, ring, i > 0, eye)).or_default() += 1;
                }
            }
        }
        for line in &self.lines {
            let holds = |p: Coord<f64>| (p.x - centre.x).abs() <= half && (p.y - centre.y).abs() <= half;
            // A path goes on from edge to edge where the vertex between them is in the box.
            let stays = |a: &Segment, b: &Segment| meets(a) && meets(b) && holds(a.1);
            let pieces = line.chunk_by(stays).filter(|piece| meets(&piece[0]));
            content
                .paths
                .extend(pieces.map(|piece| piece.iter().map(key).collect::<Vec<_>>()));
        }
        content.points = self.points.iter().filter(|point| meets(point)).map(key).collect();
        content.paths.sort();
        content.points.sort_unstable();
        content
    }
}

/// A vertex that is repeated draws nothing.
fn distinct(coords: &[Coord<f64>]) -> Vec<Coord<f64>> {
    let mut coords = coords.to_vec();
    coords.dedup();
    coords
}

fn key((a, b): &Segment) -> Key {
    [a.x, a.y, b.x, b.y].map(f64::to_bits)
}

fn is_clockwise(ring: &[Segment]) -> bool {
    let origin = ring[0].0;
    let cross = |(a, b): &Segment| (a.x - origin.x) * (b.y - origin.y) - (b.x - origin.x) * (a.y - origin.y);
    ring.iter().map(cross).sum::<f64>() > 0.0
}

/// An edge as it is told apart: without direction, or with the direction that all shells share.
fn outline_key((a, b): Segment, ring: &[Segment], is_hole: bool, eye: Eye) -> Key {
    let (there, back) = (key(&(a, b)), key(&(b, a)));
    match eye {
        Eye::Sharp => there.min(back),
        Eye::Suspicious if is_clockwise(ring) == is_hole => back,
        Eye::Suspicious => there,
    }
}

/// What a ring adds to a point's being inside: 1 for a shell, -1 for a hole, or how often it winds around the point.
fn depth(ring: &[Segment], is_hole: bool, p: Coord<f64>, eye: Eye) -> i32 {
    let sign = if is_hole { -1 } else { 1 };
    match eye {
        Eye::Sharp => sign * i32::from(is_inside(ring, p)),
        Eye::Suspicious => {
            let turn = if is_clockwise(ring) { 1 } else { -1 };
            let quarter = |(a, b): &Segment| {
                let crosses = (a.y > p.y) != (b.y > p.y) && p.x > a.x + (p.y - a.y) / (b.y - a.y) * (b.x - a.x);
                i32::from(crosses) * if b.y > a.y { -1 } else { 1 }
            };
            sign * turn * ring.iter().map(quarter).sum::<i32>()
        }
    }
}

/// The tiles of a zoom that hold different things, each box grown by a fraction of a tile.
fn brute_force(before: &Drawn, after: &Drawn, zoom: u8, grow: f64, eye: Eye) -> Tiles {
    let n = f64::from(1u32 << zoom);
    let ends = || before.ends().chain(after.ends());
    let (west, east) = ends().fold((9.0f64, -9.0f64), |(w, e), c| (w.min(c.x), e.max(c.x)));
    let (north, south) = ends().fold((9.0f64, -9.0f64), |(n, s), c| (n.min(c.y), s.max(c.y)));
    let columns = ((west * n - grow).floor() as i64)..=((east * n + grow).floor() as i64);
    let rows = ((north * n - grow).floor().max(0.0) as i64)..=((south * n + grow).floor().min(n - 1.0) as i64);
    let differs = |(x, y): &(i64, i64)| {
        let centre = Coord {
            x: (*x as f64 + 0.5) / n,
            y: (*y as f64 + 0.5) / n,
        };
        let half = (0.5 + grow) / n;
        before.content(centre, half, eye) != after.content(centre, half, eye)
    };
    columns
        .flat_map(|x| rows.clone().map(move |y| (x, y)))
        .filter(differs)
        .map(|(x, y)| (zoom, x.rem_euclid(1 << zoom) as u32, y as u32))
        .collect()
}

fn answer(view: &View, before: Option<&Geometry<f64>>, after: Option<&Geometry<f64>>) -> Tiles {
    let settings = LayerSettings {
        zooms: view.zooms,
        buffer: Buffer::new(view.buffer).unwrap(),
        policy: Policy::Change,
        beyond_180: Beyond180::Shifted,
    };
    let shape = |side: Option<&Geometry<f64>>| side.map_or(Shape::Absent, |g| Shape::Geometry(Arc::new(g.clone())));
    stale_tiles(
        &shape(before),
        &shape(after),
        Changed::Geometry,
        &settings,
        CoverLimits::UNLIMITED,
    )
    .iter()
    .map(|tile| (tile.z(), tile.x(), tile.y()))
    .collect()
}

/// Whether an answer that holds more than what changed is wrong, or only wasteful.
#[derive(Clone, Copy, PartialEq)]
enum Extra {
    IsWrong,
    IsWaste,
}

fn judge(
    view: &View,
    before: Option<&Geometry<f64>>,
    after: Option<&Geometry<f64>>,
    extra: Extra,
) -> Result<(), TestCaseError> {
    let found = answer(view, before, after);
    let (old, new) = (Drawn::of(before), Drawn::of(after));
    let all = |grow: f64, eye| -> Tiles {
        let grow = view.buffer + HALF_UNIT + grow;
        view.zooms
            .iter()
            .flat_map(|zoom| brute_force(&old, &new, zoom, grow, eye))
            .collect()
    };
    let (required, allowed) = (all(-TOUCH, Eye::Sharp), all(TOUCH, Eye::Suspicious));
    let some = |tiles: &Tiles, others: &Tiles| tiles.difference(others).take(4).copied().collect::<Vec<_>>();
    prop_assert!(required.is_subset(&found), "missed {:?}", some(&required, &found));
    if extra == Extra::IsWrong {
        prop_assert!(found.is_subset(&allowed), "too many {:?}", some(&found, &allowed));
    }
    prop_assert_eq!(answer(view, after, before), found, "an edit and its undoing differ");
    Ok(())
}

fn is_off_poles(areas: &MultiPolygon<f64>) -> bool {
    let rings = areas
        .iter()
        .flat_map(|area| std::iter::once(area.exterior()).chain(area.interiors()));
    rings.flatten().all(|c| c.y.abs() < 89.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn edits_of_areas(view in view(), parts in vec(star(), 1..4), part in any::<Index>(), edit in area_edit()) {
        let before = stars(&view, &parts);
        let after = edited(&view, &before, part, &edit);
        // Flat rings, which poles make of all that is beyond them, count whole.
        let is_plain = [&before, &after].into_iter().all(is_off_poles);
        let extra = if is_plain { Extra::IsWrong } else { Extra::IsWaste };
        judge(&view, Some(&before.into()), Some(&after.into()), extra)?;
    }

    #[test]
    fn edits_of_several_areas_at_once_miss_nothing(
        view in view(), parts in vec(star(), 1..4), edits in vec((any::<Index>(), area_edit()), 2..4),
    ) {
        let before = stars(&view, &parts);
        let after = edits.iter().fold(before.clone(), |areas, (part, edit)| match areas.0.len() {
            0 => areas,
            _ => edited(&view, &areas, *part, edit),
        });
        judge(&view, Some(&before.into()), Some(&after.into()), Extra::IsWaste)?;
    }

    #[test]
    fn areas_that_come_and_go(view in view(), parts in vec(star(), 1..3)) {
        let areas = Geometry::from(stars(&view, &parts));
        judge(&view, None, Some(&areas), Extra::IsWaste)?;
        judge(&view, Some(&areas), None, Extra::IsWaste)?;
    }

    #[test]
    fn edits_of_lines(
        view in view(), lines in vec(vec(place(), 1..7), 1..4), line in any::<Index>(), touch in touch(), at in any::<Index>(),
    ) {
        let before: Vec<_> = lines.iter().map(|line| view.line(line)).collect();
        let mut after = before.clone();
        let line = line.index(after.len());
        after[line] = touched(&view, &after[line], &touch, at);
        judge(&view, Some(&MultiLineString::new(before).into()), Some(&MultiLineString::new(after).into()), Extra::IsWrong)?;
    }

    /// Lines over a few places only: they share edges, run back on themselves, are split and exchange their ends.
    #[test]
    fn lines_that_run_over_the_same_places(
        view in view(), before in vec(vec(0usize..5, 1..7), 1..4), after in vec(vec(0usize..5, 1..7), 1..4),
    ) {
        let places = [(0.0, 0.0), (0.3, 0.1), (0.7, -0.2), (0.9, 0.8), (-0.5, 0.6)];
        let lines = |lines: &[Vec<usize>]| {
            let line = |line: &Vec<usize>| view.line(&line.iter().map(|i| places[*i]).collect::<Vec<_>>());
            Geometry::from(MultiLineString::new(lines.iter().map(line).collect()))
        };
        judge(&view, Some(&lines(&before)), Some(&lines(&after)), Extra::IsWaste)?;
    }

    #[test]
    fn edits_of_points(view in view(), before in vec(place(), 0..4), after in vec(place(), 0..4), n_kept in 0usize..4) {
        let after = [&before[..n_kept.min(before.len())], &after].concat();
        let points = |places: &[(f64, f64)]| -> Geometry<f64> {
            places.iter().map(|place| Point(view.at(*place))).collect::<MultiPoint<_>>().into()
        };
        judge(&view, Some(&points(&before)), Some(&points(&after)), Extra::IsWrong)?;
    }
}
