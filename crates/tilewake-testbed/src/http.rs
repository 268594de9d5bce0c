//! Asks over HTTP, one connection a client, as a browser or a proxy would.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1::{SendRequest, handshake},
    header::HOST,
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// An open connection.
pub struct Client {
    host: String,
    sender: SendRequest<Empty<Bytes>>,
}

impl Client {
    /// Connects.
    pub async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("could not connect to {address}"))?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // Ends with the sender.
        tokio::spawn(connection);
        Ok(Self {
            host: address.to_string(),
            sender,
        })
    }

    /// The status and the whole body.
    pub async fn get(&mut self, path: &str) -> Result<(StatusCode, Bytes)> {
        let response = self.stream(path).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }

    /// The answer as it comes, for bodies that never end.
    pub async fn stream(&mut self, path: &str) -> Result<Response<Incoming>> {
        let request = Request::get(path).header(HOST, &self.host).body(Empty::new())?;
        self.sender.ready().await?;
        self.sender
            .send_request(request)
            .await
            .with_context(|| format!("could not get {path}"))
    }
}
