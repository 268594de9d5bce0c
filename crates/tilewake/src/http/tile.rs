//! `GET /{layer}/{z}/{x}/{y}`, with or without `.mvt`.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use axum::{
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use tilewake_core::{
    layer::LayerName,
    tile::{MAX_ZOOM, TileId},
};

use super::{Problem, Site, open_to_all};
use crate::tiles::{
    cache::{Freshness, Served, TileKey},
    render::{self, RenderError},
};

pub(super) async fn tile(
    State(site): State<Site>,
    Path((layer, z, x, y)): Path<(String, String, String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let key = parse(&layer, &z, &x, &y)?;
    let (pool, wanted, delay) = (site.renders.clone(), key.clone(), site.render_delay);
    let render = || async move {
        let picture = render::render(&pool, &wanted.layer, wanted.tile).await?;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        Ok(picture)
    };
    let served = site.cache.serve(key, render).await.map_err(|error| problem(&error))?;
    Ok(respond(&served, headers.get(header::IF_NONE_MATCH)))
}

fn parse(layer: &str, z: &str, x: &str, y: &str) -> Result<TileKey, Problem> {
    let layer = LayerName::new(layer).map_err(|error| Problem::bad_request(error.to_string()))?;
    let y = y.strip_suffix(".mvt").or_else(|| y.strip_suffix(".pbf")).unwrap_or(y);
    let number = |name: &str, text: &str| {
        let wrong = || {
            Problem::bad_request(format!(
                "{name} is {text:?}: a tile is /LAYER/Z/X/Y.mvt, with whole numbers"
            ))
        };
        text.parse::<u64>().map_err(|_| wrong())
    };
    let (z, x, y) = (number("z", z)?, number("x", x)?, number("y", y)?);
    let tile = u8::try_from(z)
        .ok()
        .zip(u32::try_from(x).ok())
        .zip(u32::try_from(y).ok());
    let tile = tile.and_then(|((z, x), y)| TileId::new(z, x, y));
    let no_tile =
        || format!("there is no tile {z}/{x}/{y}: at zoom z, x and y are below 2^z, and z is at most {MAX_ZOOM}");
    let tile = tile.ok_or_else(|| Problem::not_found(no_tile()))?;
    Ok(TileKey { layer, tile })
}

fn problem(error: &Arc<RenderError>) -> Problem {
    match error.as_ref() {
        RenderError::UnknownLayer(_) | RenderError::OutsideZooms { .. } => Problem::not_found(error.to_string()),
        error => Problem::unavailable(error),
    }
}

/// A tile without features is an empty 200, not a 204: every client takes the first for what it is, an empty tile, and
/// some take the second for a failure and ask the zoom above.
fn respond(served: &Served, if_none_match: Option<&HeaderValue>) -> Response {
    let etag = etag(served);
    let is_known = if_none_match
        .and_then(|value| value.to_str().ok())
        .is_some_and(|known| matches(known, &etag));
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let kind = [(header::CONTENT_TYPE, "application/vnd.mapbox-vector-tile")];
        (kind, served.picture.clone()).into_response()
    };
    open_to_all(&mut response);
    let headers = response.headers_mut();
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(header::ETAG, etag);
    }
    headers.insert(header::CACHE_CONTROL, cache_control(served.freshness));
    response
}

/// `no-cache` lets a client keep the tile and has it ask before every use: the answer is a 304 until an edit.
fn cache_control(freshness: Freshness) -> HeaderValue {
    HeaderValue::from_static(match freshness {
        Freshness::Cacheable => "no-cache",
        Freshness::NoStore => "no-store",
    })
}

/// Two pictures of one tile that differ have different tags, save once in 2^64.
fn etag(served: &Served) -> String {
    let mut hasher = DefaultHasher::new();
    served.picture.hash(&mut hasher);
    format!("\"{:016x}-{:x}\"", hasher.finish(), served.picture.len())
}

/// RFC 9110, 13.1.2: any of a list, compared weakly, or `*`.
fn matches(if_none_match: &str, etag: &str) -> bool {
    if_none_match
        .split(',')
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_is_named_with_or_without_its_suffix() {
        for y in ["3", "3.mvt", "3.pbf"] {
            let key = parse("roads", "4", "5", y).ok().unwrap();
            assert_eq!(key.tile, TileId::new(4, 5, 3).unwrap());
        }
    }

    #[test]
    fn what_cannot_exist_is_not_found_and_nonsense_is_a_bad_request() {
        let status = |layer, z, x, y| parse(layer, z, x, y).err().unwrap().status;
        for (z, x, y) in [
            ("1", "2", "0"),
            ("29", "0", "0"),
            ("300", "0", "0"),
            ("3", "0", "99999999999"),
        ] {
            assert_eq!(status("roads", z, x, y), StatusCode::NOT_FOUND);
        }
        for (layer, z, x, y) in [
            ("Roads", "1", "0", "0"),
            ("roads", "a", "0", "0"),
            ("roads", "1", "-1", "0"),
            ("roads", "1", "0", "0.png"),
        ] {
            assert_eq!(status(layer, z, x, y), StatusCode::BAD_REQUEST);
        }
    }

    #[test]
    fn a_tag_matches_in_a_list_and_weakly() {
        for known in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", "*"] {
            assert!(matches(known, "\"a\""), "{known}");
        }
        assert!(!matches("\"b\", \"ab\"", "\"a\""));
    }
}
