//! What the relay publishes: an edit with the geometry that was current when the relay read it.
//!
//! `event_version` and everything in [`Edit`] is *as of the edit*. `geometry_version` and the geometry are *as read*: of
//! this or a later version, never of an earlier one.

mod geojson;

use std::{fmt, str::FromStr, sync::Arc};

use chrono::{DateTime, Utc};
use geo_types::Geometry;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use crate::{
    feature::{Epoch, FeatureId, FeatureKey, LonLatBox, Shape, Version},
    layer::{LayerName, LayerSettings},
    route::RoutingKey,
};

pub use self::geojson::{SCHEMA_VERSION, UnreadableEvent};

/// What names an event for ever: `layer/feature_id@epoch.version`.
///
/// Made by the producer, stable across republication. A raised epoch has version 0 and no feature id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId {
    /// The feature; its id is empty for a raised epoch.
    pub key: FeatureKey,
    /// The layer's epoch when the edit was made.
    pub epoch: Epoch,
    /// The version that the edit made.
    pub version: Version,
}

/// A text that is no event id.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no event id: it reads layer/feature_id@epoch.version")]
pub struct InvalidEventId(String);

/// What would make an event id ambiguous, or unfit for a URL.
const RESERVED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'%')
    .add(b'/')
    .add(b'@')
    .add(b'?')
    .add(b'#')
    .add(b'"')
    .add(b'<')
    .add(b'>');

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = utf8_percent_encode(self.key.id.as_str(), RESERVED);
        write!(f, "{}/{id}@{}.{}", self.key.layer, self.epoch, self.version)
    }
}

impl FromStr for EventId {
    type Err = InvalidEventId;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (layer, rest) = s.split_once('/')?;
            let (id, versions) = rest.split_once('@')?;
            let (epoch, version) = versions.split_once('.')?;
            let id = percent_decode_str(id).decode_utf8().ok()?;
            Some(Self {
                key: FeatureKey {
                    layer: LayerName::new(layer).ok()?,
                    id: FeatureId::new(&*id),
                },
                epoch: Epoch(epoch.parse().ok()?),
                version: Version(version.parse().ok()?),
            })
        };
        parse().ok_or_else(|| InvalidEventId(s.to_owned()))
    }
}

/// What an edit did, in the application's words if it stated an intent, else one of the constants here.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Action(Arc<str>);

impl Action {
    /// The feature came to be.
    pub const CREATED: &'static str = "created";
    /// Its geometry changed.
    pub const MOVED: &'static str = "moved";
    /// Only its attributes changed.
    pub const UPDATED: &'static str = "updated";
    /// The feature went.
    pub const RETIRED: &'static str = "retired";
    /// The layer's epoch was raised.
    pub const EPOCH: &'static str = "epoch";

    /// Wraps the word.
    #[must_use]
    pub fn new(word: impl Into<Arc<str>>) -> Self {
        Self(word.into())
    }

    /// The word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What an edit changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Changed {
    /// Where the feature is drawn.
    Geometry,
    /// What is drawn there.
    Attributes,
    /// Both, as when a feature comes or goes.
    Both,
}

/// An edit as its outbox row has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    /// The feature.
    pub key: FeatureKey,
    /// The layer's epoch when the edit was made.
    pub epoch: Epoch,
    /// The version that the edit made, at least 1.
    pub version: Version,
    /// The feature's version before its first event of this epoch.
    pub base_version: Version,
    /// What the edit did.
    pub action: Action,
    /// What the edit changed.
    pub changed: Changed,
    /// The box before the edit; `None` where there was no feature.
    pub before: Option<LonLatBox>,
    /// The box after the edit; `None` where there is no feature.
    pub after: Option<LonLatBox>,
    /// Where the edit happened.
    pub routing_key: Option<RoutingKey>,
    /// Where the feature was before, if that is elsewhere.
    pub previous_routing_key: Option<RoutingKey>,
    /// When the edit was made, by the clock of the features' database.
    pub occurred_at: DateTime<Utc>,
    /// The W3C trace context of the edit's transaction.
    pub traceparent: Option<String>,
}

impl Edit {
    /// What names its event.
    #[must_use]
    pub fn event_id(&self) -> EventId {
        EventId {
            key: self.key.clone(),
            epoch: self.epoch,
            version: self.version,
        }
    }
}

/// Why an event goes out without geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Omission {
    /// Larger than `max_bytes`.
    TooLarge,
    /// No GeoJSON geometry can say it, or its coordinates cannot be transformed.
    NotEncodable,
    /// The layer's table or the row could not be read.
    NotReadable,
    /// What was read is older than the edit.
    Behind,
    /// The event could not be delivered with its geometry.
    Undeliverable,
}

/// The geometry an event carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Carried {
    /// The feature as read.
    Geometry(Arc<Geometry<f64>>),
    /// The feature was gone, or its geometry NULL, when it was read.
    Tombstone,
    /// Left out; the boxes stand in for it.
    Omitted(Omission),
}

impl Carried {
    /// The shape, if one is carried.
    #[must_use]
    pub fn shape(&self) -> Option<Shape> {
        match self {
            Self::Geometry(geometry) => Some(Shape::Geometry(Arc::clone(geometry))),
            Self::Tombstone => Some(Shape::Absent),
            Self::Omitted(_) => None,
        }
    }
}

/// A position in the write-ahead log of the features' database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WalPosition(pub u64);

/// The event of an edit.
#[derive(Clone, Debug, PartialEq)]
pub struct EditEvent {
    /// What was edited, as of the edit.
    pub edit: Edit,
    /// The version that the carried geometry belongs to, as read. Equal to the edit's where geometry is left out.
    pub geometry_version: Version,
    /// The geometry, as read.
    pub carried: Carried,
    /// Every render must have replayed the log up to here to draw the edit.
    pub wal_position: WalPosition,
}

/// The event of a raised epoch: the layer is purged whole.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochEvent {
    /// The layer.
    pub layer: LayerName,
    /// The epoch that begins.
    pub epoch: Epoch,
    /// The layer's settings, as read; `None` when the layer was removed.
    pub settings: Option<LayerSettings>,
    /// When the epoch was raised, by the clock of the features' database.
    pub occurred_at: DateTime<Utc>,
    /// As in [`EditEvent`].
    pub wal_position: WalPosition,
}

/// What the relay publishes.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// One edit of one feature.
    Edit(EditEvent),
    /// A raised epoch.
    Epoch(EpochEvent),
}

impl Event {
    /// What names the event.
    #[must_use]
    pub fn id(&self) -> EventId {
        match self {
            Self::Edit(event) => event.edit.event_id(),
            Self::Epoch(event) => EventId {
                key: FeatureKey {
                    layer: event.layer.clone(),
                    id: FeatureId::new(""),
                },
                epoch: event.epoch,
                version: Version::ZERO,
            },
        }
    }

    /// The layer.
    #[must_use]
    pub fn layer(&self) -> &LayerName {
        match self {
            Self::Edit(event) => &event.edit.key.layer,
            Self::Epoch(event) => &event.layer,
        }
    }

    /// The layer's epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        match self {
            Self::Edit(event) => event.edit.epoch,
            Self::Epoch(event) => event.epoch,
        }
    }

    /// What the edit did.
    #[must_use]
    pub fn action(&self) -> &str {
        match self {
            Self::Edit(event) => event.edit.action.as_str(),
            Self::Epoch(_) => Action::EPOCH,
        }
    }

    /// When it happened, by the clock of the features' database.
    #[must_use]
    pub fn occurred_at(&self) -> DateTime<Utc> {
        match self {
            Self::Edit(event) => event.edit.occurred_at,
            Self::Epoch(event) => event.occurred_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_id_reads_back_whatever_the_feature_is_called() {
        for id in ["1", "a/b@c.d", "100%", "", "Mannerheimintie ä", "\n"] {
            let id = EventId {
                key: FeatureKey {
                    layer: LayerName::new("roads").unwrap(),
                    id: FeatureId::new(id),
                },
                epoch: Epoch(1_764_512_345),
                version: Version(7),
            };
            assert_eq!(id.to_string().parse::<EventId>().unwrap(), id, "{id}");
        }
    }

    #[test]
    fn what_is_no_event_id_is_refused() {
        for text in [
            "",
            "roads",
            "roads/1",
            "roads/1@2",
            "Roads/1@2.3",
            "roads/1@x.3",
            "roads/%ff@1.1",
        ] {
            assert!(text.parse::<EventId>().is_err(), "{text}");
        }
    }
}
