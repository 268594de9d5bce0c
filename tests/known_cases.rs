//! The edits of `fixtures/cases`, whose stale tiles are known: nothing required may be missing, and nothing may be there
//! that is neither required nor allowed.

#![expect(clippy::unwrap_used, reason = "the cases are known to be well formed")]

use std::{collections::BTreeSet, sync::Arc};

use geo_types::Geometry;
use serde::Deserialize;
use tilewake_core::{
    cover::CoverLimits,
    event::Changed,
    feature::Shape,
    layer::{Beyond180, Buffer, LayerSettings, Policy, Zooms},
    staleness::stale_tiles,
};

const CASES: &str = include_str!("../fixtures/cases/stale_tiles.jsonl");

type Tiles = BTreeSet<(u32, u32)>;

#[derive(Deserialize)]
struct Case {
    name: String,
    mode: String,
    zoom: u8,
    buffer: f64,
    before: Option<geojson::Geometry>,
    after: Option<geojson::Geometry>,
    required: Tiles,
    allowed: Tiles,
}

impl Case {
    fn answer(&self, policy: Policy, zooms: Zooms) -> Tiles {
        let settings = LayerSettings {
            zooms,
            buffer: Buffer::new(self.buffer).unwrap(),
            policy,
            beyond_180: Beyond180::Both,
        };
        let (before, after) = (shape(self.before.as_ref()), shape(self.after.as_ref()));
        stale_tiles(&before, &after, Changed::Geometry, &settings, CoverLimits::default())
            .iter()
            .filter(|tile| tile.z() == self.zoom)
            .map(|tile| (tile.x(), tile.y()))
            .collect()
    }

    /// What is wrong with an answer; nothing if it is right.
    fn fault(&self, answer: &Tiles, zooms: Zooms) -> Option<String> {
        let missed: Vec<_> = self.required.difference(answer).collect();
        let extra: Vec<_> = answer
            .iter()
            .filter(|tile| !self.required.contains(tile) && !self.allowed.contains(tile))
            .collect();
        let is_right = missed.is_empty() && extra.is_empty();
        (!is_right).then(|| {
            let Self { name, mode, zoom, .. } = self;
            let some = |tiles: &[&(u32, u32)]| format!("{} {:?}", tiles.len(), &tiles[..tiles.len().min(4)]);
            let (missed, extra) = (some(&missed), some(&extra));
            format!("{name} ({mode}, zoom {zoom} of {zooms}): missed {missed}, too many {extra}\n")
        })
    }
}

fn shape(geometry: Option<&geojson::Geometry>) -> Shape {
    geometry.map_or(Shape::Absent, |geometry| {
        Shape::Geometry(Arc::new(Geometry::try_from(geometry.clone()).unwrap()))
    })
}

fn faults_of(policy: Policy) -> (usize, String) {
    let cases = CASES.lines().map(|line| serde_json::from_str::<Case>(line).unwrap());
    let mine: Vec<_> = cases.filter(|case| case.mode == policy.as_str()).collect();
    let faults = mine.iter().flat_map(|case| {
        let alone = Zooms::new(case.zoom, case.zoom).unwrap();
        let with_others = Zooms::new(0, (case.zoom + 1).min(28)).unwrap();
        [alone, with_others].map(|zooms| case.fault(&case.answer(policy, zooms), zooms))
    });
    (mine.len(), faults.flatten().collect())
}

#[test]
fn footprints_of_the_known_edits_are_exact() {
    assert_eq!(faults_of(Policy::Footprint), (207, String::new()));
}

#[test]
fn changes_of_the_known_edits_are_found_and_nothing_else() {
    assert_eq!(faults_of(Policy::Change), (120, String::new()));
}

#[test]
fn visible_changes_of_the_known_edits_are_found_and_nothing_else() {
    assert_eq!(faults_of(Policy::Pixel), (72, String::new()));
}
