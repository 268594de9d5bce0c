//! From degrees to the plane that maps are drawn on.
//!
//! Edges of geometries are straight in this plane, because renderers project vertices and nothing between them. Nothing
//! is clamped to the square world here: what lies beyond it is cut off by the tiles that exist.

use std::f64::consts::TAU;

/// Longitude and latitude in degrees to the unit square of Web Mercator: `x` grows to the east and is 0 to 1 from -180
/// to 180 degrees, `y` grows to the south and is 0 to 1 between the latitudes ±85.0511.
///
/// `y = 0.5 - asinh(tan φ) / 2π`, as PROJ has it: finite at the poles, because no floating-point number is a right angle.
/// A latitude beyond a pole is the pole.
///
/// ```
/// use tilewake_core::mercator::project;
/// assert_eq!(project(0.0, 0.0), (0.5, 0.5));
/// assert!(project(0.0, 90.0).1.is_finite());
/// ```
#[must_use]
pub fn project(lon: f64, lat: f64) -> (f64, f64) {
    let t = lat.clamp(-90.0, 90.0).to_radians().tan();
    // asinh by its definition: exact enough absolutely, which is what counts in the plane, and odd in `t`.
    let stretched = (t.abs() + (t * t + 1.0).sqrt()).ln().copysign(t);
    (lon / 360.0 + 0.5, 0.5 - stretched / TAU)
}

/// The way back from the unit square, to longitude and latitude in degrees; exact to the last bits.
///
/// ```
/// use tilewake_core::mercator::unproject;
/// assert_eq!(unproject(0.5, 0.5), (0.0, 0.0));
/// ```
#[must_use]
pub fn unproject(x: f64, y: f64) -> (f64, f64) {
    let lat = ((0.5 - y) * TAU).sinh().atan().to_degrees();
    ((x - 0.5) * 360.0, lat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_places_are_where_other_projections_put_them() {
        for (lon, lat, x, y) in [
            (-180.0, 85.051_128_779_806_59, 0.0, 0.0),
            (180.0, -85.051_128_779_806_59, 1.0, 1.0),
            // By the asinh of another mathematical library.
            (7.4234, 43.7371, 0.520_620_555_555_555_5, 0.364_632_681_877_717_7),
        ] {
            let (px, py) = project(lon, lat);
            assert!((px - x).abs() < 1e-14 && (py - y).abs() < 1e-14, "{px} {py}");
        }
    }

    #[test]
    fn the_way_back_leads_back() {
        for (lon, lat) in [(-180.0, 85.0), (7.4234, 43.7371), (400.0, -89.5), (0.0, 1e-9)] {
            let (x, y) = project(lon, lat);
            let (back_lon, back_lat) = unproject(x, y);
            assert!(
                (back_lon - lon).abs() < 1e-12 && (back_lat - lat).abs() < 1e-12,
                "{back_lon} {back_lat}"
            );
        }
    }

    #[test]
    fn the_plane_is_symmetric_about_the_equator() {
        for lat in [1e-9, 0.1, 45.0, 89.999, 90.0] {
            let (north, south) = (project(0.0, lat).1, project(0.0, -lat).1);
            assert!((north + south - 1.0).abs() < 1e-14, "{north} {south}");
        }
    }

    #[test]
    fn the_poles_are_finite_and_beyond_everything_else() {
        let pole = project(0.0, 90.0).1;
        assert!((project(0.0, 120.0).1 - pole).abs() < 1e-14);
        assert!(pole.is_finite() && pole < project(0.0, 89.999_999).1);
        assert!((pole + 5.55).abs() < 0.01, "{pole}");
    }
}
