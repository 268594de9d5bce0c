//! Events as GeoJSON (RFC 7946), so that any tool of the trade reads a topic: a Feature with foreign members.
//!
//! | member | as of the edit or as read |
//! |---|---|
//! | `geometry`, `geometry_version`, `geometry_omitted`, `wal_position`, `settings` | as read |
//! | all others | as of the edit |
//!
//! Unknown members are tolerated, so that an older consumer reads a newer event of the same schema version; a schema
//! version from the future is refused, because nobody can know what it means.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use geo_types::Geometry;
use serde::{Deserialize, Serialize};

use super::{Action, Carried, Changed, Edit, EditEvent, EpochEvent, Event, EventId, Omission, WalPosition};
use crate::{
    feature::{Epoch, FeatureId, FeatureKey, LonLatBox, Version},
    layer::{LayerName, LayerSettings},
    route::RoutingKey,
};

/// The version of the schema that is written.
pub const SCHEMA_VERSION: u16 = 1;

/// Bytes that are no event.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableEvent {
    /// Not JSON, or not with the members of an event.
    #[error("cannot read an event")]
    Malformed(#[source] serde_json::Error),
    /// Written by a newer tilewake.
    #[error("cannot read an event of schema version {0}: this tilewake reads up to {SCHEMA_VERSION}")]
    FromTheFuture(u16),
    /// Members that contradict each other.
    #[error("cannot read the event {event_id:?}: {reason}")]
    Contradiction {
        /// The event id as it stands there.
        event_id: String,
        /// What does not fit.
        reason: &'static str,
    },
}

#[derive(Serialize, Deserialize)]
struct Wire {
    r#type: FeatureType,
    geometry: Option<geojson::Geometry>,
    #[serde(default)]
    properties: Option<serde_json::Map<String, serde_json::Value>>,
    schema_version: u16,
    event_id: String,
    layer: LayerName,
    epoch: Epoch,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    feature_id: Option<FeatureId>,
    action: Action,
    event_version: Version,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    geometry_version: Option<Version>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    geometry_omitted: Option<Omission>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base_version: Option<Version>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed: Option<Changed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    routing_key: Option<RoutingKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous_routing_key: Option<RoutingKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before_box: Option<LonLatBox>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after_box: Option<LonLatBox>,
    #[serde(default = "epsg_4326")]
    crs: String,
    wal_position: WalPosition,
    occurred_at: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settings: Option<LayerSettings>,
}

#[derive(Serialize, Deserialize)]
enum FeatureType {
    Feature,
}

fn epsg_4326() -> String {
    "EPSG:4326".to_owned()
}

/// What is read first of any event: an event from the future may have no other member that is understood.
#[derive(Deserialize)]
struct Stamp {
    schema_version: u16,
}

impl Event {
    /// Writes the event.
    #[must_use]
    pub fn to_geojson(&self) -> Vec<u8> {
        // Text keys and finite numbers only: serialising to memory cannot fail.
        serde_json::to_vec(&Wire::from(self)).unwrap_or_default()
    }

    /// Reads an event.
    pub fn from_geojson(bytes: &[u8]) -> Result<Self, UnreadableEvent> {
        let stamp: Stamp = serde_json::from_slice(bytes).map_err(UnreadableEvent::Malformed)?;
        if stamp.schema_version > SCHEMA_VERSION {
            return Err(UnreadableEvent::FromTheFuture(stamp.schema_version));
        }
        serde_json::from_slice::<Wire>(bytes)
            .map_err(UnreadableEvent::Malformed)?
            .into_event()
    }
}

impl From<&Event> for Wire {
    fn from(event: &Event) -> Self {
        match event {
            Event::Edit(edit) => Self::of_edit(edit),
            Event::Epoch(epoch) => Self::of_epoch(epoch),
        }
    }
}

impl Wire {
    fn of_edit(event: &EditEvent) -> Self {
        let edit = &event.edit;
        let (geometry, geometry_omitted) = match &event.carried {
            Carried::Geometry(geometry) => (Some(geojson::Geometry::from(geometry.as_ref())), None),
            Carried::Tombstone => (None, None),
            Carried::Omitted(omission) => (None, Some(*omission)),
        };
        Self {
            r#type: FeatureType::Feature,
            geometry,
            properties: Some(serde_json::Map::new()),
            schema_version: SCHEMA_VERSION,
            event_id: edit.event_id().to_string(),
            layer: edit.key.layer.clone(),
            epoch: edit.epoch,
            feature_id: Some(edit.key.id.clone()),
            action: edit.action.clone(),
            event_version: edit.version,
            geometry_version: Some(event.geometry_version),
            geometry_omitted,
            base_version: Some(edit.base_version),
            changed: Some(edit.changed),
            routing_key: edit.routing_key,
            previous_routing_key: edit.previous_routing_key,
            before_box: edit.before,
            after_box: edit.after,
            crs: epsg_4326(),
            wal_position: event.wal_position,
            occurred_at: edit.occurred_at,
            traceparent: edit.traceparent.clone(),
            settings: None,
        }
    }

    fn of_epoch(event: &EpochEvent) -> Self {
        Self {
            r#type: FeatureType::Feature,
            geometry: None,
            properties: Some(serde_json::Map::new()),
            schema_version: SCHEMA_VERSION,
            event_id: Event::Epoch(event.clone()).id().to_string(),
            layer: event.layer.clone(),
            epoch: event.epoch,
            feature_id: None,
            action: Action::new(Action::EPOCH),
            event_version: Version::ZERO,
            geometry_version: None,
            geometry_omitted: None,
            base_version: None,
            changed: None,
            routing_key: None,
            previous_routing_key: None,
            before_box: None,
            after_box: None,
            crs: epsg_4326(),
            wal_position: event.wal_position,
            occurred_at: event.occurred_at,
            traceparent: None,
            settings: event.settings,
        }
    }

    fn into_event(self) -> Result<Event, UnreadableEvent> {
        let event_id = self.event_id.clone();
        let named = event_id.parse::<EventId>().ok();
        let event = self
            .into_unchecked_event()
            .map_err(|reason| contradiction(&event_id, reason))?;
        if named != Some(event.id()) {
            return Err(contradiction(
                &event_id,
                "the event id names another layer, feature, epoch or version",
            ));
        }
        Ok(event)
    }

    fn into_unchecked_event(self) -> Result<Event, &'static str> {
        if self.crs != epsg_4326() {
            return Err("the geometry is not in EPSG:4326");
        }
        if self.event_version == Version::ZERO {
            return Ok(Event::Epoch(EpochEvent {
                layer: self.layer,
                epoch: self.epoch,
                settings: self.settings,
                occurred_at: self.occurred_at,
                wal_position: self.wal_position,
            }));
        }
        let carried = carried(self.geometry, self.geometry_omitted)?;
        let geometry_version = self.geometry_version.ok_or("it has no geometry_version")?;
        let base_version = self.base_version.ok_or("it has no base_version")?;
        let is_plausible = match carried {
            Carried::Omitted(_) => geometry_version == self.event_version,
            _ => geometry_version >= self.event_version,
        };
        if !is_plausible || base_version < Version::ZERO || base_version >= self.event_version {
            return Err("its versions contradict each other");
        }
        Ok(Event::Edit(EditEvent {
            edit: Edit {
                key: FeatureKey {
                    layer: self.layer,
                    id: self.feature_id.ok_or("it has no feature_id")?,
                },
                epoch: self.epoch,
                version: self.event_version,
                base_version,
                action: self.action,
                changed: self.changed.ok_or("it does not say what changed")?,
                before: self.before_box,
                after: self.after_box,
                routing_key: self.routing_key,
                previous_routing_key: self.previous_routing_key,
                occurred_at: self.occurred_at,
                traceparent: self.traceparent,
            },
            geometry_version,
            carried,
            wal_position: self.wal_position,
        }))
    }
}

fn carried(geometry: Option<geojson::Geometry>, omitted: Option<Omission>) -> Result<Carried, &'static str> {
    match (geometry, omitted) {
        (Some(_), Some(_)) => Err("it has a geometry and says that it has none"),
        (None, Some(omission)) => Ok(Carried::Omitted(omission)),
        (None, None) => Ok(Carried::Tombstone),
        (Some(geometry), None) => {
            let geometry = Geometry::try_from(geometry).map_err(|_| "its geometry has not the shape of its type")?;
            Ok(Carried::Geometry(Arc::new(geometry)))
        }
    }
}

fn contradiction(event_id: &str, reason: &'static str) -> UnreadableEvent {
    UnreadableEvent::Contradiction {
        event_id: event_id.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use geo_types::polygon;

    use super::*;
    use crate::layer::{Beyond180, Buffer, Policy, Zooms};

    fn edit_event(carried: Carried) -> Event {
        Event::Edit(EditEvent {
            edit: Edit {
                key: FeatureKey {
                    layer: LayerName::new("roads").unwrap(),
                    id: FeatureId::new("a/b"),
                },
                epoch: Epoch(1_764_512_345),
                version: Version(7),
                base_version: Version(1),
                action: Action::new("rerouted"),
                changed: Changed::Both,
                before: Some(LonLatBox::new([24.9, 60.1, 25.0, 60.2]).unwrap()),
                after: None,
                routing_key: RoutingKey::of_point(24.94, 60.17),
                previous_routing_key: None,
                occurred_at: DateTime::from_timestamp_micros(1_764_512_346_123_456).unwrap(),
                traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
            },
            geometry_version: Version(7),
            carried,
            wal_position: WalPosition(42),
        })
    }

    fn epoch_event() -> Event {
        Event::Epoch(EpochEvent {
            layer: LayerName::new("roads").unwrap(),
            epoch: Epoch(5),
            settings: Some(LayerSettings {
                zooms: Zooms::new(0, 14).unwrap(),
                buffer: Buffer::DEFAULT,
                policy: Policy::Footprint,
                beyond_180: Beyond180::Both,
            }),
            occurred_at: DateTime::UNIX_EPOCH,
            wal_position: WalPosition(0),
        })
    }

    #[test]
    fn an_event_reads_back_what_was_written() {
        let area = polygon![(x: 0.1, y: 0.2), (x: 1.0 / 3.0, y: 0.2), (x: 0.3, y: 0.7)];
        let carried = [
            Carried::Geometry(Arc::new(area.into())),
            Carried::Tombstone,
            Carried::Omitted(Omission::TooLarge),
        ];
        for event in carried.map(edit_event).into_iter().chain([epoch_event()]) {
            assert_eq!(Event::from_geojson(&event.to_geojson()).unwrap(), event);
        }
    }

    #[test]
    fn any_reader_of_geojson_reads_an_event() {
        for event in [edit_event(Carried::Tombstone), epoch_event()] {
            let text = String::from_utf8(event.to_geojson()).unwrap();
            assert!(
                matches!(text.parse::<geojson::GeoJson>().unwrap(), geojson::GeoJson::Feature(_)),
                "{text}"
            );
        }
    }

    fn changed(member: &str, value: serde_json::Value) -> Result<Event, UnreadableEvent> {
        let mut json: serde_json::Value = serde_json::from_slice(&edit_event(Carried::Tombstone).to_geojson()).unwrap();
        json[member] = value;
        Event::from_geojson(json.to_string().as_bytes())
    }

    #[test]
    fn unknown_members_are_tolerated() {
        assert_eq!(changed("novelty", 1.into()).unwrap(), edit_event(Carried::Tombstone));
    }

    #[test]
    fn a_schema_version_from_the_future_is_refused_as_such() {
        assert!(matches!(
            changed("schema_version", 2.into()),
            Err(UnreadableEvent::FromTheFuture(2))
        ));
        assert!(matches!(
            Event::from_geojson(br#"{"schema_version":9}"#),
            Err(UnreadableEvent::FromTheFuture(9))
        ));
    }

    #[test]
    fn members_that_contradict_each_other_are_refused() {
        for (member, value) in [
            ("event_id", "roads/a%2Fb@1.7".into()),
            ("geometry_version", 6.into()),
            ("base_version", 7.into()),
            ("crs", "EPSG:3857".into()),
            ("feature_id", serde_json::Value::Null),
        ] {
            assert!(
                matches!(changed(member, value), Err(UnreadableEvent::Contradiction { .. })),
                "{member}"
            );
        }
    }
}
