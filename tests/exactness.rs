//! I1 for the built-in renderer: whatever tile draws something else after an edit is stale under every policy.

#![expect(clippy::unwrap_used, reason = "the settings are known to be right")]

mod shapes;

use std::{collections::BTreeSet, sync::Arc};

use geo_types::{Geometry, GeometryCollection, MultiLineString, MultiPoint, Point};
use proptest::{collection::vec, prelude::*, sample::Index, sample::select};
use shapes::{
    Star, View,
    edits::{area_edit, edited, touch, touched},
    place, star, stars, view,
};
use tilewake_core::{
    cover::CoverLimits,
    event::Changed,
    feature::{FeatureId, Shape},
    layer::{Beyond180, Buffer, LayerSettings, Policy, Zooms},
    picture::{FeatureToDraw, Picture, Value, draw},
    staleness::{footprint, stale_tiles},
    tile::TileId,
    tile_set::TileSet,
};

/// A line past 180 degrees is drawn across the whole world by some, so without limits the answers would be as long.
const LIMITS: CoverLimits = CoverLimits { max_ranges: 2000 };

/// A feature in a place of a view: its geometry, if it exists, and its one attribute.
type Version = (Option<Geometry<f64>>, i64);

fn shape(geometry: Option<&Geometry<f64>>) -> Shape {
    geometry.map_or(Shape::Absent, |g| Shape::Geometry(Arc::new(g.clone())))
}

fn picture(tile: TileId, buffer: Buffer, (geometry, attribute): &Version) -> Picture {
    let feature = geometry.as_ref().map(|geometry| FeatureToDraw {
        id: FeatureId::new("1"),
        geometry: Arc::new(geometry.clone()),
        attributes: vec![("kind".into(), Value::Int(*attribute))],
    });
    draw(tile, buffer, feature)
}

/// Some hundred tiles that could draw either version, and their neighbours.
fn candidates(settings: &LayerSettings, before: &Version, after: &Version) -> BTreeSet<TileId> {
    let both = [&before.0, &after.0].map(|g| footprint(&shape(g.as_ref()), settings, LIMITS));
    let neighbours = |tile: TileId| {
        let n = 1i64 << tile.z();
        let near =
            (-1..=1).flat_map(move |dx| (-1..=1).map(move |dy| (i64::from(tile.x()) + dx, i64::from(tile.y()) + dy)));
        near.filter_map(move |(x, y)| {
            TileId::new(tile.z(), u32::try_from(x.rem_euclid(n)).ok()?, u32::try_from(y).ok()?)
        })
    };
    let drawn = TileSet::union_all(&both);
    let step = drawn.ranges().len() / 15 + 1;
    let some = drawn.ranges().iter().step_by(step);
    some.flat_map(|range| [range.start, range.start.midpoint(range.end), range.end - 1])
        .filter_map(TileId::from_pmtiles_id)
        .flat_map(neighbours)
        .collect()
}

fn judge(view: &View, beyond_180: Beyond180, before: &Version, after: &Version) -> Result<(), TestCaseError> {
    let buffer = Buffer::new(view.buffer).unwrap();
    let changed = match (before.0 != after.0, before.1 != after.1) {
        (true, true) => Changed::Both,
        (true, false) => Changed::Geometry,
        (false, _) => Changed::Attributes,
    };
    let policies = [Policy::Footprint, Policy::Change, Policy::Pixel].map(|policy| LayerSettings {
        zooms: view.zooms,
        buffer,
        policy,
        beyond_180,
    });
    let stale = policies.map(|settings| {
        let (before, after) = (shape(before.0.as_ref()), shape(after.0.as_ref()));
        stale_tiles(&before, &after, changed, &settings, LIMITS)
    });
    for tile in candidates(&policies[0], before, after) {
        if picture(tile, buffer, before) != picture(tile, buffer, after) {
            for (settings, stale) in policies.iter().zip(&stale) {
                prop_assert!(stale.contains(tile), "{} misses {tile}", settings.policy.as_str());
            }
        }
    }
    Ok(())
}

/// Views from far away, where shapes are a few units of the grid: rings collapse, turn, and lose their edges.
fn far_view() -> impl Strategy<Value = View> {
    (view(), 0.5..40.0f64, 0u8..=14).prop_map(|(view, units, zoom)| View {
        size: units * 360.0 / 4096.0 / f64::from(1u32 << zoom),
        zooms: Zooms::new(zoom.saturating_sub(2), zoom + 1).unwrap(),
        ..view
    })
}

fn any_view() -> impl Strategy<Value = View> {
    prop_oneof![view(), far_view()]
}

fn beyond_180() -> impl Strategy<Value = Beyond180> {
    select(vec![Beyond180::Both, Beyond180::Shifted])
}

fn attributes() -> impl Strategy<Value = (i64, i64)> {
    prop_oneof![3 => Just((1, 1)), 1 => Just((1, 2))]
}

fn lines(view: &View, lines: &[Vec<(f64, f64)>]) -> MultiLineString<f64> {
    MultiLineString::new(lines.iter().map(|line| view.line(line)).collect())
}

fn collection(view: &View, parts: &[Star], line: &[(f64, f64)]) -> Geometry<f64> {
    let members = vec![Geometry::from(stars(view, parts)), view.line(line).into()];
    Geometry::GeometryCollection(GeometryCollection::from(members))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_tile_that_draws_areas_otherwise_is_missed(
        view in any_view(), beyond_180 in beyond_180(), parts in vec(star(), 1..4),
        edits in vec((any::<Index>(), area_edit()), 1..3), (old, new) in attributes(),
    ) {
        let before = stars(&view, &parts);
        let after = edits.iter().fold(before.clone(), |areas, (part, edit)| match areas.0.len() {
            0 => areas,
            _ => edited(&view, &areas, *part, edit),
        });
        judge(&view, beyond_180, &(Some(before.into()), old), &(Some(after.into()), new))?;
    }

    #[test]
    fn no_tile_that_draws_lines_otherwise_is_missed(
        view in any_view(), beyond_180 in beyond_180(), before in vec(vec(place(), 1..7), 1..4), line in any::<Index>(),
        touch in touch(), at in any::<Index>(), (old, new) in attributes(),
    ) {
        let before = lines(&view, &before);
        let mut after = before.clone();
        let line = line.index(after.0.len());
        after.0[line] = touched(&view, &after.0[line], &touch, at);
        judge(&view, beyond_180, &(Some(before.into()), old), &(Some(after.into()), new))?;
    }

    #[test]
    fn no_tile_is_missed_where_lines_run_over_the_same_places(
        view in any_view(), before in vec(vec(0usize..5, 1..7), 1..4), after in vec(vec(0usize..5, 1..7), 1..4),
    ) {
        let places = [(0.0, 0.0), (0.3, 0.1), (0.7, -0.2), (0.9, 0.8), (-0.5, 0.6)];
        let lines = |all: &[Vec<usize>]| {
            let places: Vec<Vec<_>> = all.iter().map(|line| line.iter().map(|i| places[*i]).collect()).collect();
            Some(lines(&view, &places).into())
        };
        judge(&view, Beyond180::Both, &(lines(&before), 1), &(lines(&after), 1))?;
    }

    #[test]
    fn no_tile_is_missed_where_a_feature_comes_goes_or_becomes_another(
        view in any_view(), beyond_180 in beyond_180(), parts in vec(star(), 0..3), line in vec(place(), 1..5),
        points in vec(place(), 0..4), (old, new) in attributes(), kinds in (0usize..5, 0usize..5),
    ) {
        let points: MultiPoint = points.iter().map(|place| Point(view.at(*place))).collect();
        let all = [
            None,
            Some(stars(&view, &parts).into()),
            Some(view.line(&line).into()),
            Some(points.into()),
            Some(collection(&view, &parts, &line)),
        ];
        judge(&view, beyond_180, &(all[kinds.0].clone(), old), &(all[kinds.1].clone(), new))?;
    }
}
