//! Geometries as bytes: the well-known binary of the ledger and of PostGIS.

use geo_traits::to_geo::ToGeoGeometry;
use geo_types::{Geometry, MultiPoint};

/// Bytes that are no two-dimensional geometry.
#[derive(Debug, thiserror::Error)]
pub enum InvalidWkb {
    /// Not well-known binary, or of a kind that has no counterpart in GeoJSON.
    #[error("cannot read a geometry from well-known binary")]
    Malformed(#[source] wkb::error::WkbError),
    /// Collections within collections, deeper than anything real.
    #[error("cannot read a geometry nested deeper than {MAX_NESTING} collections")]
    Nested,
}

/// How deep collections may nest: enough for any data, shallow enough for any stack.
pub const MAX_NESTING: usize = 32;

/// Reads well-known binary (OGC Simple Features, or PostGIS' EWKB). An empty point becomes an empty multipoint, because
/// GeoJSON and the plane have no empty point.
pub fn from_wkb(bytes: &[u8]) -> Result<Geometry<f64>, InvalidWkb> {
    if nesting(bytes) > MAX_NESTING {
        return Err(InvalidWkb::Nested);
    }
    let geometry = wkb::reader::read_wkb(bytes).map_err(InvalidWkb::Malformed)?;
    Ok(geometry
        .try_to_geometry()
        .unwrap_or_else(|| MultiPoint::new(Vec::new()).into()))
}

/// Writes little-endian well-known binary.
#[must_use]
pub fn to_wkb(geometry: &Geometry<f64>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(wkb::writer::geometry_wkb_size(geometry));
    let options = wkb::writer::WriteOptions {
        endianness: wkb::Endianness::LittleEndian,
    };
    // Writing to a Vec fails for no geometry of two dimensions.
    if wkb::writer::write_geometry(&mut bytes, geometry, &options).is_err() {
        debug_assert!(false, "writing well-known binary to memory failed");
    }
    bytes
}

/// How deep collections nest in well-known binary, without recursion: the reader that follows recurses.
///
/// Every level of nesting costs at least the 9 bytes of a collection's header, and a header that opens a level stands
/// directly behind the one around it or behind a finished sibling; counting headers of collections bounds the depth
/// from above, which is all that is asked.
fn nesting(bytes: &[u8]) -> usize {
    const HEADER: usize = 9;
    let mut depth = 0;
    let mut rest = bytes;
    while rest.len() >= HEADER {
        let kind = [rest[1], rest[2], rest[3], rest[4]];
        let kind = if rest[0] == 1 {
            u32::from_le_bytes(kind)
        } else {
            u32::from_be_bytes(kind)
        };
        // 7 is a GeometryCollection; thousands and the high bits say which dimensions and whether an SRID follows.
        let has_srid = kind & 0x2000_0000 != 0;
        if (kind & 0x0fff_ffff) % 1000 != 7 {
            break;
        }
        depth += 1;
        rest = rest.get(HEADER + if has_srid { 4 } else { 0 }..).unwrap_or_default();
    }
    depth
}

#[cfg(test)]
mod tests {
    use super::*;
    use geo_types::{GeometryCollection, line_string, point, polygon};

    #[test]
    fn geometries_survive_well_known_binary() {
        let polygon = polygon![(x: 0.0, y: 0.0), (x: 3.0, y: 0.1), (x: 0.0, y: 4.0)];
        let collection = GeometryCollection::from(vec![
            Geometry::from(polygon),
            line_string![(x: 1.0, y: 2.0), (x: -1.0, y: 0.3)].into(),
            point!(x: 24.9, y: 60.1).into(),
        ]);
        let geometry = Geometry::GeometryCollection(collection);
        assert_eq!(from_wkb(&to_wkb(&geometry)).unwrap(), geometry);
    }

    #[test]
    fn an_empty_point_draws_nothing() {
        let mut bytes = vec![1, 1, 0, 0, 0];
        bytes.extend(f64::NAN.to_le_bytes());
        bytes.extend(f64::NAN.to_le_bytes());
        assert_eq!(from_wkb(&bytes).unwrap(), MultiPoint::new(Vec::new()).into());
    }

    #[test]
    fn deep_nesting_is_refused_before_it_is_read() {
        let mut bytes: Vec<u8> = [1, 7, 0, 0, 0, 1, 0, 0, 0].repeat(100_000);
        bytes.extend([1, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert!(matches!(from_wkb(&bytes), Err(InvalidWkb::Nested)));
    }

    #[test]
    fn rubbish_is_refused() {
        assert!(from_wkb(&[]).is_err());
        assert!(from_wkb(&[1, 2, 0, 0, 0, 255, 255, 255, 255]).is_err());
    }
}
