//! The SDK's requests, sent by this crate's HTTP client.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_sdk_s3::config::http::{HttpRequest, HttpResponse};
use aws_sdk_s3::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_sdk_s3::error::ConnectorError;
use aws_sdk_s3::primitives::SdkBody;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};

use super::sending::{Steps, patiently};
use crate::error::SourceError;
use crate::options::Options;
use crate::request::HttpAccess;
use crate::source::address;
use crate::source::client::Clients;

/// Sends what the SDK asks through a client of this crate, which judges
/// addresses and certificates. It is made when something is asked: most
/// imports ask nothing.
pub(super) fn over(access: HttpAccess, options: Options) -> SharedHttpClient {
    SharedHttpClient::new(Connector {
        patience: options.connect_timeout + options.stall_timeout,
        made: Arc::new(Made {
            clients: OnceLock::new(),
            access,
            options,
        }),
    })
}

#[derive(Debug, Clone)]
struct Connector {
    made: Arc<Made>,
    /// How long an answer may take, behind the last of the request that was
    /// taken.
    patience: Duration,
}

struct Made {
    clients: OnceLock<Clients>,
    access: HttpAccess,
    options: Options,
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Made(..)")
    }
}

impl Made {
    fn clients(&self) -> Result<&Clients, SourceError> {
        if let Some(clients) = self.clients.get() {
            return Ok(clients);
        }
        let clients = Clients::new(&self.access, &self.options)?;
        Ok(self.clients.get_or_init(|| clients))
    }
}

impl HttpClient for Connector {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let connector = match (settings.connect_timeout(), settings.read_timeout()) {
            (Some(connect), Some(read)) => Self {
                patience: connect + read,
                ..self.clone()
            },
            _ => self.clone(),
        };
        SharedHttpConnector::new(connector)
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let connector = self.clone();
        HttpConnectorFuture::new(async move {
            let taken = Arc::new(AtomicU64::new(0));
            let answer = send(&connector.made, request, Arc::clone(&taken));
            match patiently(answer, connector.patience, &taken).await {
                Ok(answer) => answer,
                Err(elapsed) => Err(ConnectorError::timeout(elapsed.into())),
            }
        })
    }
}

async fn send(
    made: &Made,
    request: HttpRequest,
    taken: Arc<AtomicU64>,
) -> Result<HttpResponse, ConnectorError> {
    let request = request
        .try_into_http1x()
        .map_err(|error| ConnectorError::user(error.into()))?
        .map(|body| reqwest::Body::wrap(Steps::new(body, taken)));
    let request = reqwest::Request::try_from(request)
        .map_err(|error| ConnectorError::user(error.without_url().into()))?;
    address::judge_literal(made.options.address_policy, request.url())
        .map_err(|refused| ConnectorError::user(refused.into()))?;
    let clients = made
        .clients()
        .map_err(|error| ConnectorError::user(error.into()))?;
    let url = request.url().clone();
    let way = clients.way(&url);
    let response = way.client.execute(request).await.map_err(|error| {
        let timed_out = error.is_timeout();
        let error = way.explain(&url, error);
        if timed_out {
            ConnectorError::timeout(error.into())
        } else {
            ConnectorError::io(error.into())
        }
    })?;
    let response = http::Response::<reqwest::Body>::from(response).map(SdkBody::from_body_1_x);
    HttpResponse::try_from(response).map_err(|error| ConnectorError::other(error.into(), None))
}
