//! `GET /{layer}.json`: the layer as TileJSON 3.0.0, for any map client to take as a source.

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use tilewake_core::layer::LayerName;

use super::{Problem, Site, open_to_all};
use crate::postgres::layers::{self, Layer};

pub(super) async fn tilejson(
    State(site): State<Site>,
    Path(file): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let unknown = || Problem::not_found(format!("there is no {file}; a layer's TileJSON is at /LAYER.json"));
    let name = file.strip_suffix(".json").ok_or_else(unknown)?;
    let name = LayerName::new(name).map_err(|error| Problem::bad_request(error.to_string()))?;
    let layer = layers::find(&site.pool, &name)
        .await
        .map_err(|error| Problem::unavailable(&error))?;
    let layer = layer.ok_or_else(|| Problem::not_found(format!("there is no layer {name}")))?;
    let extent = layers::extent(&site.pool, &layer)
        .await
        .map_err(|error| Problem::unavailable(&error))?;
    let fields = layers::fields(&site.pool, &layer)
        .await
        .map_err(|error| Problem::unavailable(&error))?;
    let base = if site.public_url.is_empty() {
        base_url(&headers)
    } else {
        site.public_url.clone()
    };
    let mut response = Json(describe(&layer, extent, &fields, base.trim_end_matches('/'))).into_response();
    open_to_all(&mut response);
    Ok(response)
}

fn describe(layer: &Layer, extent: [f64; 4], fields: &[(String, layers::FieldKind)], base: &str) -> serde_json::Value {
    let zooms = layer.settings.zooms;
    let fields: serde_json::Map<_, _> = fields
        .iter()
        .map(|(name, kind)| (name.clone(), kind.as_str().into()))
        .collect();
    json!({
        "tilejson": "3.0.0",
        "name": layer.name.as_str(),
        "tiles": [format!("{base}/{}/{{z}}/{{x}}/{{y}}.mvt", layer.name)],
        "minzoom": zooms.min(),
        "maxzoom": zooms.max(),
        "bounds": extent,
        "vector_layers": [{
            "id": layer.name.as_str(),
            "minzoom": zooms.min(),
            "maxzoom": zooms.max(),
            "fields": fields,
        }],
    })
}

/// The URL that the client asked under, also behind a proxy that says so.
fn base_url(headers: &HeaderMap) -> String {
    let header = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(first_of_list)
    };
    let scheme = header("x-forwarded-proto").unwrap_or("http");
    let host = header("x-forwarded-host")
        .or_else(|| header(header::HOST.as_str()))
        .unwrap_or("localhost");
    let prefix = header("x-forwarded-prefix").unwrap_or_default();
    format!("{scheme}://{host}{prefix}")
}

fn first_of_list(value: &str) -> &str {
    value.split(',').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn tiles_are_where_the_client_asked_also_behind_a_proxy() {
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("127.0.0.1:3000"));
        assert_eq!(base_url(&headers), "http://127.0.0.1:3000");
        headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
        headers.insert("x-forwarded-host", HeaderValue::from_static("tiles.example, proxy"));
        assert_eq!(base_url(&headers), "https://tiles.example");
    }
}
