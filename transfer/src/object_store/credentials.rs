//! Where credentials come from, and what it means when none do.

use aws_config::ecs::EcsCredentialsProvider;
use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::imds::credentials::ImdsCredentialsProvider;
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::web_identity_token::WebIdentityTokenCredentialsProvider;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};
use aws_sdk_s3::config::{Credentials, SharedCredentialsProvider};
use aws_sdk_s3::error::ConnectorError;
use aws_sdk_sts::error::SdkError;
use aws_sdk_sts::operation::assume_role::AssumeRoleError;
use aws_sdk_sts::operation::assume_role_with_web_identity::AssumeRoleWithWebIdentityError;

use super::ObjectStoreError;
use crate::options::AddressPolicy;
use crate::request::ObjectStoreCredentials;
use crate::source::cause;

/// Who provides the credentials.
///
/// The order of the chain is the SDK's own. The instance metadata service
/// comes last, and only for who may ask any address: the role of a machine is
/// not for everybody whose import runs on it.
pub(super) fn provider(
    wanted: &ObjectStoreCredentials,
    environment: &ProviderConfig,
    policy: AddressPolicy,
) -> SharedCredentialsProvider {
    match wanted {
        ObjectStoreCredentials::Keys {
            access_key_id,
            secret_access_key,
            session_token,
        } => SharedCredentialsProvider::new(keys(
            access_key_id,
            secret_access_key.reveal(),
            session_token.as_ref().map(|token| token.reveal()),
        )),
        // What is signed by these is taken off again.
        ObjectStoreCredentials::Anonymous => {
            SharedCredentialsProvider::new(keys("anonymous", "anonymous", None))
        }
        ObjectStoreCredentials::DefaultChain => {
            let profile = ProfileFileCredentialsProvider::builder().configure(environment);
            let identity = WebIdentityTokenCredentialsProvider::builder().configure(environment);
            let container = EcsCredentialsProvider::builder().configure(environment);
            let chain = CredentialsProviderChain::first_try(
                "Environment",
                EnvironmentVariableCredentialsProvider::new(),
            )
            .or_else("Profile", profile.build())
            .or_else("WebIdentityToken", identity.build())
            .or_else("Container", container.build());
            SharedCredentialsProvider::new(match policy {
                AddressPolicy::PublicAndPrivate => chain,
                AddressPolicy::Any => {
                    // Where there is none, one try tells.
                    let metadata = aws_config::imds::Client::builder()
                        .configure(environment)
                        .max_attempts(1)
                        .build();
                    let machine = ImdsCredentialsProvider::builder()
                        .configure(environment)
                        .imds_client(metadata);
                    chain.or_else("InstanceMetadata", Machine(machine.build()))
                }
            })
        }
    }
}

/// The role of the machine, which may have none: nobody named it, so that it
/// does not answer means no more than that.
#[derive(Debug)]
struct Machine(ImdsCredentialsProvider);

impl ProvideCredentials for Machine {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            let found = self.0.provide_credentials().await;
            found.map_err(CredentialsError::not_loaded)
        })
    }

    fn fallback_on_interrupt(&self) -> Option<Credentials> {
        self.0.fallback_on_interrupt()
    }
}

fn keys(id: &str, secret: &str, token: Option<&str>) -> Credentials {
    let token = token.map(str::to_owned);
    Credentials::new(id, secret, token, None, "given")
}

/// What it means that no credentials came.
pub(super) fn explain(error: &CredentialsError) -> ObjectStoreError {
    let words = || Words::of(error).into();
    match error {
        CredentialsError::CredentialsNotLoaded(_) => ObjectStoreError::NoCredentials,
        CredentialsError::InvalidConfiguration(_) => ObjectStoreError::InvalidCredentials(words()),
        _ if is_refused(error) => ObjectStoreError::CredentialsRefused(words()),
        _ if is_of_a_file(error) => ObjectStoreError::InvalidCredentials(words()),
        _ => ObjectStoreError::CredentialsUnavailable(words()),
    }
}

/// Whether the token service said no, rather than nothing or "not now".
fn is_refused(error: &CredentialsError) -> bool {
    let by_identity = cause::<SdkError<AssumeRoleWithWebIdentityError>>(error)
        .and_then(|error| error.raw_response());
    let by_role = cause::<SdkError<AssumeRoleError>>(error).and_then(|error| error.raw_response());
    by_identity.or(by_role).is_some_and(|response| {
        let status = response.status().as_u16();
        (400..500).contains(&status) && !matches!(status, 408 | 429)
    })
}

/// Whether a file that the environment names cannot be read.
fn is_of_a_file(error: &CredentialsError) -> bool {
    cause::<ConnectorError>(error).is_none() && cause::<std::io::Error>(error).is_some()
}

/// What an error and those below it say. The SDK's own can not be kept, as
/// they are borrowed.
#[derive(Debug)]
pub(super) struct Words(String);

impl Words {
    fn of(error: &CredentialsError) -> Self {
        let mut words = Vec::new();
        let mut next = std::error::Error::source(error);
        while let Some(error) = next {
            words.push(error.to_string());
            next = error.source();
        }
        words.dedup();
        Self(words.join(": "))
    }
}

impl std::fmt::Display for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Words {}
