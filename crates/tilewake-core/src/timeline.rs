//! The order of one feature's versions, and what an event makes stale.
//!
//! Events may arrive in any order, twice, or never (I3). Nothing is held back: each event alone says what must be purged
//! so that, once all have arrived, no tile shows anything but the last version (I1). A tile cached while version `k` was
//! current is stale at the end only if `k` or the last version draws in it. What `k` drew is purged by event `k + 1`,
//! whenever it arrives; what the last version draws is purged when its geometry is first applied.

use crate::{
    event::{Changed, EditEvent},
    feature::{Shape, Version},
};

/// How an event stands to what the ledger knows of its feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arrival {
    /// The very next version, with its own geometry.
    InOrder,
    /// Newer geometry, but something in between was not seen, or the geometry before is not known exactly.
    Jump,
    /// Overtaken by newer geometry. Never skipped: only it knows what it replaced (I1).
    Late,
    /// Seen before (I3).
    Duplicate,
    /// A raised epoch: the whole layer is stale.
    Epoch,
}

impl Arrival {
    /// The word used in the journal, metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InOrder => "in_order",
            Self::Jump => "jump",
            Self::Late => "late",
            Self::Duplicate => "duplicate",
            Self::Epoch => "epoch",
        }
    }
}

/// What an event makes stale.
#[derive(Clone, Debug, PartialEq)]
pub enum Stale {
    /// What an edit changed, both sides known exactly: the layer's policy says which tiles.
    Change {
        /// Before the edit.
        before: Shape,
        /// After the edit.
        after: Shape,
        /// What changed.
        changed: Changed,
    },
    /// Every tile that draws one of these.
    Footprints(Vec<Shape>),
}

impl Stale {
    /// Nothing at all.
    pub const NOTHING: Self = Self::Footprints(Vec::new());
}

/// What the ledger knows of one feature in one epoch.
///
/// Invariant: every version up to `watermark` was seen; `seen` holds the seen ones above it, as sorted ranges (both ends
/// included) that neither overlap nor touch each other or the watermark.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    watermark: Version,
    seen: Vec<(Version, Version)>,
    newest: Option<(Version, Shape)>,
}

impl Timeline {
    /// A feature of which no event was seen in this epoch.
    ///
    /// `base` is the version before its first event. Version 0 is known exactly: nothing is drawn.
    #[must_use]
    pub fn new(base: Version) -> Self {
        let newest = (base == Version::ZERO).then_some((Version::ZERO, Shape::Absent));
        Self {
            watermark: base,
            seen: Vec::new(),
            newest,
        }
    }

    /// What was read back from the ledger; `seen` in any order.
    #[must_use]
    pub fn restore(watermark: Version, seen: Vec<(Version, Version)>, newest: Option<(Version, Shape)>) -> Self {
        let mut timeline = Self {
            watermark,
            seen,
            newest,
        };
        timeline.seen.sort_unstable();
        timeline.advance();
        timeline
    }

    /// Every version up to this one was seen.
    #[must_use]
    pub fn watermark(&self) -> Version {
        self.watermark
    }

    /// The versions seen above the watermark, as sorted ranges with both ends included.
    #[must_use]
    pub fn seen(&self) -> &[(Version, Version)] {
        &self.seen
    }

    /// The newest geometry applied, and its version.
    #[must_use]
    pub fn newest(&self) -> Option<&(Version, Shape)> {
        self.newest.as_ref()
    }

    /// The newest version seen.
    #[must_use]
    pub fn newest_seen(&self) -> Version {
        self.seen.last().map_or(self.watermark, |range| range.1)
    }

    /// Whether an event of this version was seen.
    #[must_use]
    pub fn has_seen(&self, version: Version) -> bool {
        version <= self.watermark || self.seen.iter().any(|(from, to)| (*from..=*to).contains(&version))
    }

    /// Forgets the geometry: an older epoch's rows tell duplicates and nothing else.
    pub fn forget_geometry(&mut self) {
        self.newest = None;
    }

    /// Closes every gap below `version`: those events will not come any more.
    pub fn close_gaps(&mut self, version: Version) {
        self.watermark = self.watermark.max(version);
        self.advance();
    }

    /// Takes an event in; says how it arrived, and what it makes stale.
    pub fn apply(&mut self, event: &EditEvent) -> (Arrival, Stale) {
        if self.has_seen(event.edit.version) {
            return (Arrival::Duplicate, Stale::NOTHING);
        }
        let decision = self.place(event);
        self.mark_seen(event.edit.version);
        decision
    }

    /// What is stale, and which geometry is the newest from now on.
    fn place(&mut self, event: &EditEvent) -> (Arrival, Stale) {
        let edit = &event.edit;
        let (v, w) = (edit.version, event.geometry_version);
        let boxed = Shape::of_box(edit.before);
        let (is_newer, replaced, is_next) = match &self.newest {
            // Where the edit found something else than is known here, the table was changed unseen, and the edit is right.
            Some((s, shape)) if s.next() == v && shape.is_exact() && shape.is_absent() == boxed.is_absent() => {
                (w > *s, shape.clone(), w == v)
            }
            Some((s, _)) => (w > *s, boxed, false),
            None => (true, boxed, false),
        };
        if !is_newer {
            // What it drew itself was purged, or will be, by the event that replaced it.
            return (Arrival::Late, Stale::Footprints(vec![replaced]));
        }
        let carried = event.carried.shape();
        let is_known = carried.is_some();
        let after = carried.unwrap_or_else(|| Shape::of_box(edit.after));
        self.newest = Some((w, after.clone()));
        if is_next && is_known {
            return (
                Arrival::InOrder,
                Stale::Change {
                    before: replaced,
                    after,
                    changed: edit.changed,
                },
            );
        }
        (Arrival::Jump, Stale::Footprints(vec![replaced, after]))
    }

    /// Rule 5: marks a version as seen, moves the watermark, forgets what is under it.
    fn mark_seen(&mut self, version: Version) {
        let at = self.seen.partition_point(|(from, _)| *from < version);
        self.seen.insert(at, (version, version));
        self.advance();
    }

    /// Restores the invariant: merges ranges that touch, and swallows those that the watermark reaches.
    fn advance(&mut self) {
        let mut kept: Vec<(Version, Version)> = Vec::with_capacity(self.seen.len());
        for &(from, to) in &self.seen {
            if kept.is_empty() && from <= self.watermark.next() {
                self.watermark = self.watermark.max(to);
                continue;
            }
            match kept.last_mut() {
                Some(last) if from <= last.1.next() => last.1 = last.1.max(to),
                _ => kept.push((from, to)),
            }
        }
        self.seen = kept;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chrono::DateTime;
    use geo_types::{Geometry, point};

    use super::*;
    use crate::{
        event::{Action, Carried, Edit, Omission, WalPosition},
        feature::{Epoch, FeatureId, FeatureKey, LonLatBox},
        layer::LayerName,
    };

    /// Version `v` of the feature is a point at longitude `v`.
    fn place(v: i64) -> Shape {
        Shape::Geometry(Arc::new(Geometry::from(point!(x: v as f64, y: 0.0))))
    }

    fn around(v: i64) -> Option<LonLatBox> {
        (v > 0).then(|| LonLatBox::new([v as f64, 0.0, v as f64, 0.0]).unwrap())
    }

    fn event(v: i64, w: i64) -> EditEvent {
        let Shape::Geometry(geometry) = place(w) else {
            unreachable!()
        };
        EditEvent {
            edit: Edit {
                key: FeatureKey {
                    layer: LayerName::new("roads").unwrap(),
                    id: FeatureId::new("1"),
                },
                epoch: Epoch(1),
                version: Version(v),
                base_version: Version::ZERO,
                action: Action::new(Action::MOVED),
                changed: Changed::Geometry,
                before: around(v - 1),
                after: around(v),
                routing_key: None,
                previous_routing_key: None,
                occurred_at: DateTime::UNIX_EPOCH,
                traceparent: None,
            },
            geometry_version: Version(w),
            carried: Carried::Geometry(geometry),
            wal_position: WalPosition(0),
        }
    }

    fn omitted(v: i64) -> EditEvent {
        EditEvent {
            carried: Carried::Omitted(Omission::TooLarge),
            ..event(v, v)
        }
    }

    fn boxed(v: i64) -> Shape {
        Shape::of_box(around(v))
    }

    #[test]
    fn the_next_version_with_its_own_geometry_is_in_order() {
        let mut timeline = Timeline::new(Version::ZERO);
        let created = Stale::Change {
            before: Shape::Absent,
            after: place(1),
            changed: Changed::Geometry,
        };
        assert_eq!(timeline.apply(&event(1, 1)), (Arrival::InOrder, created));
        let moved = Stale::Change {
            before: place(1),
            after: place(2),
            changed: Changed::Geometry,
        };
        assert_eq!(timeline.apply(&event(2, 2)), (Arrival::InOrder, moved));
        assert_eq!(timeline.watermark(), Version(2));
    }

    #[test]
    fn a_feature_older_than_its_layer_begins_with_a_jump() {
        let mut timeline = Timeline::new(Version(1));
        assert_eq!(
            timeline.apply(&event(2, 2)),
            (Arrival::Jump, Stale::Footprints(vec![boxed(1), place(2)]))
        );
    }

    #[test]
    fn geometry_of_a_later_version_is_a_jump_and_the_events_it_overtook_are_late() {
        let mut timeline = Timeline::new(Version::ZERO);
        timeline.apply(&event(1, 1));
        assert_eq!(
            timeline.apply(&event(2, 4)),
            (Arrival::Jump, Stale::Footprints(vec![place(1), place(4)]))
        );
        assert_eq!(
            timeline.apply(&event(4, 4)),
            (Arrival::Late, Stale::Footprints(vec![boxed(3)]))
        );
        assert_eq!(timeline.seen(), [(Version(4), Version(4))]);
        assert_eq!(
            timeline.apply(&event(3, 4)),
            (Arrival::Late, Stale::Footprints(vec![boxed(2)]))
        );
        assert_eq!((timeline.watermark(), timeline.seen()), (Version(4), &[][..]));
        assert_eq!(timeline.newest(), Some(&(Version(4), place(4))));
    }

    #[test]
    fn an_event_seen_before_is_a_duplicate_in_any_order() {
        let mut timeline = Timeline::new(Version::ZERO);
        for v in [3, 1, 2] {
            assert_ne!(timeline.apply(&event(v, v)).0, Arrival::Duplicate);
            let before = timeline.clone();
            assert_eq!(timeline.apply(&event(v, v)), (Arrival::Duplicate, Stale::NOTHING));
            assert_eq!(timeline, before);
        }
    }

    #[test]
    fn an_event_without_geometry_goes_by_boxes_and_so_does_the_next() {
        let mut timeline = Timeline::new(Version::ZERO);
        timeline.apply(&event(1, 1));
        assert_eq!(
            timeline.apply(&omitted(2)),
            (Arrival::Jump, Stale::Footprints(vec![place(1), boxed(2)]))
        );
        assert_eq!(
            timeline.apply(&event(3, 3)),
            (Arrival::Jump, Stale::Footprints(vec![boxed(2), place(3)]))
        );
        assert_eq!(timeline.apply(&event(4, 4)).0, Arrival::InOrder);
    }

    #[test]
    fn what_the_edit_found_is_believed_more_than_what_is_known() {
        let unseen = |before| {
            let mut event = event(2, 2);
            event.edit.before = before;
            event
        };
        let mut truncated = Timeline::new(Version::ZERO);
        truncated.apply(&event(1, 1));
        assert_eq!(
            truncated.apply(&unseen(None)),
            (Arrival::Jump, Stale::Footprints(vec![Shape::Absent, place(2)]))
        );
        let mut inserted = Timeline::restore(Version(1), Vec::new(), Some((Version(1), Shape::Absent)));
        assert_eq!(
            inserted.apply(&unseen(around(7))),
            (Arrival::Jump, Stale::Footprints(vec![boxed(7), place(2)]))
        );
    }

    #[test]
    fn a_timeline_restored_from_any_ranges_keeps_its_invariant() {
        let ranges = vec![
            (Version(9), Version(9)),
            (Version(2), Version(3)),
            (Version(5), Version(6)),
            (Version(7), Version(7)),
        ];
        let timeline = Timeline::restore(Version(1), ranges, None);
        assert_eq!(timeline.watermark(), Version(3));
        assert_eq!(timeline.seen(), [(Version(5), Version(7)), (Version(9), Version(9))]);
        assert!(timeline.has_seen(Version(6)) && !timeline.has_seen(Version(4)) && !timeline.has_seen(Version(8)));
    }

    #[test]
    fn closing_gaps_moves_the_watermark_over_what_was_seen() {
        let mut timeline = Timeline::restore(
            Version(1),
            vec![(Version(4), Version(5)), (Version(8), Version(8))],
            None,
        );
        timeline.close_gaps(Version(3));
        assert_eq!(timeline.watermark(), Version(5));
        timeline.close_gaps(timeline.newest_seen());
        assert_eq!((timeline.watermark(), timeline.seen()), (Version(8), &[][..]));
    }
}
