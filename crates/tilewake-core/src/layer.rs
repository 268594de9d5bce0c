//! A layer: what is drawn of a table, at which zooms, with which buffer.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::tile::MAX_ZOOM;

/// The name of a layer, `[a-z0-9_-]{1,63}`: fit for a URL, a metric label, an event id and an SQL identifier.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LayerName(Arc<str>);

/// A text that cannot name a layer.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} cannot name a layer: use 1 to 63 of the characters a-z, 0-9, _ and -")]
pub struct InvalidLayerName(String);

impl LayerName {
    /// Checks the name.
    ///
    /// ```
    /// use tilewake_core::layer::LayerName;
    /// assert!(LayerName::new("roads").is_ok());
    /// assert!(LayerName::new("Roads!").is_err());
    /// ```
    pub fn new(name: &str) -> Result<Self, InvalidLayerName> {
        let fits = (1..=63).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
        if fits {
            Ok(Self(name.into()))
        } else {
            Err(InvalidLayerName(name.to_owned()))
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LayerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for LayerName {
    type Err = InvalidLayerName;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::new(s)
    }
}

impl TryFrom<String> for LayerName {
    type Error = InvalidLayerName;
    fn try_from(s: String) -> Result<Self, Self::Error> {
        Self::new(&s)
    }
}

impl From<LayerName> for String {
    fn from(name: LayerName) -> Self {
        name.as_str().to_owned()
    }
}

/// The zooms a layer is drawn at, both ends included.
///
/// Invariant: `min <= max <= MAX_ZOOM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Zooms {
    min: u8,
    max: u8,
}

/// A text that is not a range of zooms.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a range of zooms: write 0-14, or 12 for one zoom; the deepest is {MAX_ZOOM}")]
pub struct InvalidZooms(String);

impl Zooms {
    /// Every zoom there is.
    pub const ALL: Self = Self { min: 0, max: MAX_ZOOM };

    /// The zooms `min..=max`; `None` unless `min <= max <= MAX_ZOOM`.
    #[must_use]
    pub fn new(min: u8, max: u8) -> Option<Self> {
        (min <= max && max <= MAX_ZOOM).then_some(Self { min, max })
    }

    /// One zoom of these.
    pub(crate) fn only(zoom: u8) -> Self {
        debug_assert!(zoom <= MAX_ZOOM);
        Self { min: zoom, max: zoom }
    }

    /// These zooms without those above one of them.
    pub(crate) fn from(self, zoom: u8) -> Self {
        debug_assert!(self.contains(zoom));
        Self { min: zoom, ..self }
    }

    /// The first zoom.
    #[must_use]
    pub fn min(self) -> u8 {
        self.min
    }

    /// The last zoom.
    #[must_use]
    pub fn max(self) -> u8 {
        self.max
    }

    /// Whether the layer is drawn at `zoom`.
    #[must_use]
    pub fn contains(self, zoom: u8) -> bool {
        (self.min..=self.max).contains(&zoom)
    }

    /// The zooms, shallowest first.
    #[must_use]
    pub fn iter(self) -> impl DoubleEndedIterator<Item = u8> {
        self.min..=self.max
    }
}

impl fmt::Display for Zooms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.min, self.max)
    }
}

impl FromStr for Zooms {
    type Err = InvalidZooms;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let parse = |t: &str| t.trim().parse::<u8>().ok();
        let (min, max) = s.split_once('-').unwrap_or((s, s));
        parse(min)
            .zip(parse(max))
            .and_then(|(min, max)| Self::new(min, max))
            .ok_or_else(|| InvalidZooms(s.to_owned()))
    }
}

impl TryFrom<String> for Zooms {
    type Error = InvalidZooms;
    fn try_from(s: String) -> Result<Self, Self::Error> {
        s.parse()
    }
}

impl From<Zooms> for String {
    fn from(zooms: Zooms) -> Self {
        zooms.to_string()
    }
}

/// How far a tile draws beyond its edge, as a fraction of a tile's width, `0 <= buffer <= 1`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Buffer(f64);

/// A text that is not a buffer.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a buffer: write a fraction of a tile from 0 to 1, such as 64/4096 or 0.015625")]
pub struct InvalidBuffer(String);

impl Buffer {
    /// 64 of 4096 grid units, what most renderers of vector tiles draw.
    pub const DEFAULT: Self = Self(64.0 / 4096.0);

    /// `None` unless `0 <= fraction <= 1`.
    #[must_use]
    pub fn new(fraction: f64) -> Option<Self> {
        (0.0..=1.0).contains(&fraction).then_some(Self(fraction))
    }

    /// The fraction of a tile's width.
    #[must_use]
    pub fn fraction(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = self.0 * 4096.0;
        if units.fract() == 0.0 {
            write!(f, "{units}/4096")
        } else {
            write!(f, "{}", self.0)
        }
    }
}

impl FromStr for Buffer {
    type Err = InvalidBuffer;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let parse = |t: &str| t.trim().parse::<f64>().ok();
        let fraction = match s.split_once('/') {
            Some((units, of)) => parse(units).zip(parse(of)).map(|(units, of)| units / of),
            None => parse(s),
        };
        fraction.and_then(Self::new).ok_or_else(|| InvalidBuffer(s.to_owned()))
    }
}

impl TryFrom<f64> for Buffer {
    type Error = InvalidBuffer;
    fn try_from(fraction: f64) -> Result<Self, Self::Error> {
        Self::new(fraction).ok_or_else(|| InvalidBuffer(fraction.to_string()))
    }
}

impl From<Buffer> for f64 {
    fn from(buffer: Buffer) -> Self {
        buffer.0
    }
}

/// Which tiles an edit makes stale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Every tile that draws the feature before or after the edit: right for any renderer.
    #[default]
    Footprint,
    /// Every tile whose clipped geometry differs: right for renderers that clip, snap, order features by key, and nothing
    /// more.
    Change,
    /// Every tile whose geometry differs after snapping to the tile's grid: right for the same renderers; low zooms stay
    /// cached when an edit is too small to be seen there.
    Pixel,
}

impl Policy {
    /// The word used in configuration, SQL and events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Footprint => "footprint",
            Self::Change => "change",
            Self::Pixel => "pixel",
        }
    }
}

/// A word that names no policy.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no staleness policy: there are footprint, change and pixel")]
pub struct InvalidPolicy(String);

impl FromStr for Policy {
    type Err = InvalidPolicy;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "footprint" => Ok(Self::Footprint),
            "change" => Ok(Self::Change),
            "pixel" => Ok(Self::Pixel),
            _ => Err(InvalidPolicy(s.to_owned())),
        }
    }
}

/// Where a geometry with a longitude beyond ±180 is drawn: renderers disagree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Beyond180 {
    /// Both readings are stale.
    #[default]
    Both,
    /// As a copy shifted by whole worlds: what the built-in renderer draws.
    Shifted,
    /// With every vertex wrapped alone: what `ST_Transform` makes of it.
    Wrapped,
}

/// A word that names no reading of longitudes beyond ±180.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no reading of longitudes beyond 180: there are both, shifted and wrapped")]
pub struct InvalidBeyond180(String);

impl Beyond180 {
    /// The word used in configuration, SQL and events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Shifted => "shifted",
            Self::Wrapped => "wrapped",
        }
    }
}

impl FromStr for Beyond180 {
    type Err = InvalidBeyond180;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        match s {
            "both" => Ok(Self::Both),
            "shifted" => Ok(Self::Shifted),
            "wrapped" => Ok(Self::Wrapped),
            _ => Err(InvalidBeyond180(s.to_owned())),
        }
    }
}

/// What decides which tiles draw a layer's features.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerSettings {
    /// The zooms that are drawn.
    pub zooms: Zooms,
    /// How far a tile draws beyond its edge.
    pub buffer: Buffer,
    /// Which tiles an edit makes stale.
    pub policy: Policy,
    /// Where longitudes beyond ±180 are drawn.
    pub beyond_180: Beyond180,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zooms_and_buffers_read_back_what_they_write() {
        for text in ["0-14", "12-12", "0-28"] {
            assert_eq!(text.parse::<Zooms>().unwrap().to_string(), text);
        }
        assert_eq!("12".parse::<Zooms>().unwrap(), Zooms::new(12, 12).unwrap());
        assert_eq!("64/4096".parse::<Buffer>().unwrap(), Buffer::DEFAULT);
        assert_eq!("0.015625".parse::<Buffer>().unwrap().to_string(), "64/4096");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "14-0", "0-29", "a-b", "-1", "0-14-15"] {
            assert!(text.parse::<Zooms>().is_err(), "{text}");
        }
        for text in ["", "2", "-0.1", "1/0", "NaN", "inf"] {
            assert!(text.parse::<Buffer>().is_err(), "{text}");
        }
    }
}
