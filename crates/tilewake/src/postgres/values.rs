//! Values of Postgres' own types, as text, where the driver has no type for them.

use tilewake_core::{
    feature::{InvalidBox, LonLatBox, Version},
    geometry::InvalidWkb,
};

/// A value that is not what its type promises.
#[derive(Debug, thiserror::Error)]
pub enum InvalidValue {
    /// Not the text of a `box`.
    #[error("{0:?} is no box")]
    BoxText(String),
    /// The corners make no box.
    #[error(transparent)]
    Box(#[from] InvalidBox),
    /// Not the text of an `int8multirange`.
    #[error("{0:?} is no multirange of versions")]
    Multirange(String),
    /// Not a geometry.
    #[error(transparent)]
    Wkb(#[from] InvalidWkb),
}

/// Writes a `box` as Postgres has it: upper right corner, lower left corner.
#[must_use]
pub fn box_text(b: &LonLatBox) -> String {
    format!("({},{}),({},{})", b.east(), b.north(), b.west(), b.south())
}

/// Reads the text of a `box`.
pub fn read_box(text: &str) -> Result<LonLatBox, InvalidValue> {
    let invalid = || InvalidValue::BoxText(text.to_owned());
    let numbers: Vec<f64> = text
        .split(['(', ')', ','])
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().map_err(|_| invalid()))
        .collect::<Result<_, _>>()?;
    let [east, north, west, south] = numbers[..] else {
        return Err(invalid());
    };
    Ok(LonLatBox::new([west, south, east, north])?)
}

/// Writes versions as an `int8multirange`.
#[must_use]
pub fn multirange(versions: &[(Version, Version)]) -> String {
    let ranges: Vec<_> = versions.iter().map(|(from, to)| format!("[{from},{to}]")).collect();
    format!("{{{}}}", ranges.join(","))
}

/// Reads the text of an `int8multirange`, which Postgres always writes half open.
pub fn read_multirange(text: &str) -> Result<Vec<(Version, Version)>, InvalidValue> {
    let invalid = || InvalidValue::Multirange(text.to_owned());
    let inner = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .ok_or_else(invalid)?;
    let range = |part: &str| {
        let (from, to) = part.trim_matches(['[', ',']).split_once(',')?;
        Some((Version(from.parse().ok()?), Version(to.parse::<i64>().ok()? - 1)))
    };
    inner
        .split(')')
        .filter(|part| !part.is_empty())
        .map(|part| range(part).ok_or_else(invalid))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_read_as_postgres_writes_them() {
        let b = LonLatBox::new([-1.5, 2.0, 3.0, 4.25]).unwrap();
        assert_eq!(box_text(&b), "(3,4.25),(-1.5,2)");
        assert_eq!(read_box("(3,4.25),(-1.5,2)").unwrap(), b);
        assert!(read_box("(3,4.25),(-1.5)").is_err());
    }

    #[test]
    fn multiranges_read_as_postgres_writes_them() {
        let versions = vec![(Version(4), Version(6)), (Version(9), Version(9))];
        assert_eq!(multirange(&versions), "{[4,6],[9,9]}");
        assert_eq!(read_multirange("{[4,7),[9,10)}").unwrap(), versions);
        assert_eq!(read_multirange("{}").unwrap(), []);
        assert!(read_multirange("{[4,x)}").is_err());
    }
}
