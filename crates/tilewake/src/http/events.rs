//! `GET /events`: purges of this process' cache as server-sent events, so that a page can ask anew for what it shows.

use std::convert::Infallible;

use axum::{
    extract::State,
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use futures_util::{Stream, stream};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio_util::sync::CancellationToken;

use super::{Site, open_to_all};
use crate::purger::PurgeNotice;

pub(super) async fn purges(State(site): State<Site>) -> Response {
    let stream = stream_of(site.notices.subscribe(), site.stop);
    let mut response = Sse::new(stream).keep_alive(KeepAlive::default()).into_response();
    open_to_all(&mut response);
    response
}

fn stream_of(notices: Receiver<PurgeNotice>, stop: CancellationToken) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold((notices, stop), |(mut notices, stop)| async move {
        let received = tokio::select! {
            () = stop.cancelled() => return None,
            received = notices.recv() => received,
        };
        let event = match received {
            Ok(PurgeNotice::Tiles(purged)) => Event::default()
                .event("purge")
                .id(purged.number.to_string())
                .json_data(&purged)
                .ok()?,
            // Also for a listener that was too slow: all it shows may be stale.
            Ok(PurgeNotice::Everything) | Err(RecvError::Lagged(_)) => Event::default().event("everything").data("{}"),
            Err(RecvError::Closed) => return None,
        };
        Some((Ok(event), (notices, stop)))
    })
}
