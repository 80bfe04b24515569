//! The SDK's client for a store, the same for reading and for writing.

use aws_config::BehaviorVersion;
use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::provider_config::ProviderConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{
    Builder, Region, RequestChecksumCalculation, ResponseChecksumValidation, SharedHttpClient,
    StalledStreamProtectionConfig,
};

use super::{address, connector, credentials};
use crate::error::SourceError;
use crate::options::{AddressPolicy, Options};
use crate::request::{HttpAccess, ObjectStore};

/// The region where none is named: what stores that have none expect, and
/// Amazon's first.
const REGION: &str = "us-east-1";

/// A client of a store, and the region that it signs for.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) region: String,
}

/// Sets up a client. Nothing is asked over the network yet.
pub(super) async fn connect(
    store: &ObjectStore,
    options: &Options,
) -> Result<Connected, SourceError> {
    let endpoint = store.endpoint.as_ref().map(address::endpoint).transpose()?;
    let region = region(store.region.as_deref()).await;
    let environment = ProviderConfig::without_region()
        .with_http_client(environment_client(options))
        .with_region(Some(region.clone()));
    let provider = credentials::provider(&store.credentials, &environment, options.address_policy);
    let found = aws_config::defaults(BehaviorVersion::latest())
        .region(region.clone())
        .credentials_provider(provider)
        .load()
        .await;
    let mut config = Builder::from(&found)
        .http_client(store_client(store, options))
        .force_path_style(store.path_style)
        // A tenant's bucket must not make this process ask anything.
        .disable_s3_express_session_auth(true)
        // What is tried again is decided here, and who is silent for too long
        // is found out by the HTTP client.
        .retry_config(RetryConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        // Many stores know none of the newer checksums.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    if let Some(endpoint) = &endpoint {
        config = config.endpoint_url(endpoint);
    }
    Ok(Connected {
        client: Client::from_conf(config.build()),
        region: region.as_ref().to_owned(),
    })
}

/// Sends what a store itself is asked.
fn store_client(store: &ObjectStore, options: &Options) -> SharedHttpClient {
    let access = HttpAccess {
        authorities: store.authorities.clone(),
        ..HttpAccess::default()
    };
    connector::over(access, options.clone())
}

/// Sends what is asked for credentials. Where, is said by the environment of
/// this process, so every address may be.
fn environment_client(options: &Options) -> SharedHttpClient {
    let mut options = Options {
        address_policy: AddressPolicy::Any,
        ..options.clone()
    };
    // What is on this machine's link is behind no proxy.
    options.proxies.except.push_str(",169.254.0.0/16");
    connector::over(HttpAccess::default(), options)
}

/// The region given, or the environment's, or the profile's. The instance's
/// own is not asked for: a store does not move with the node.
async fn region(given: Option<&str>) -> Region {
    let given = given.map(|region| Region::new(region.to_owned()));
    RegionProviderChain::first_try(given)
        .or_else(EnvironmentVariableRegionProvider::new())
        .or_else(ProfileFileRegionProvider::new())
        .region()
        .await
        .unwrap_or(Region::from_static(REGION))
}
