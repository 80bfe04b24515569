//! The source that an image names: where it is, and by which objects it is
//! reached. Pure.

use hypercloud_api::ImageSource;

use super::validate::Invalid;
use crate::access::wanted::{
    WantedHeader, WantedPlace, WantedSource, address, is_reserved, judge_name, object,
};
use crate::agents::source::SourceUrl;

/// The source that `source` names.
pub fn wanted(source: &ImageSource) -> Result<WantedSource, Invalid> {
    let names = source.secret_ref.iter().map(|secret| &secret.name);
    names
        .chain(source.secret_headers.iter().map(|secret| &secret.name))
        .chain(source.ca_config_map.iter().map(|map| &map.name))
        .chain(&source.cert_config_map)
        .try_for_each(|name| judge_name(name))?;
    let place = match (&source.http, &source.object_store) {
        (Some(url), None) => web(source, url)?,
        (None, Some(stored)) => WantedPlace::Object(object(stored)?),
        _ => return Err(Invalid::SourceMissing),
    };
    Ok(WantedSource {
        place,
        secret: source.secret_ref.as_ref().map(|secret| secret.name.clone()),
        ca: source.ca(),
    })
}

fn web(source: &ImageSource, text: &str) -> Result<WantedPlace, Invalid> {
    address("http", text)?;
    let mut headers = Vec::new();
    for header in &source.headers {
        if is_reserved(&header.name) {
            return Err(Invalid::Header {
                name: header.name.clone(),
            });
        }
        headers.push(WantedHeader {
            name: header.name.clone(),
            value: header.value.clone(),
        });
    }
    let secrets = source.secret_headers.iter();
    Ok(WantedPlace::Http {
        url: SourceUrl::new(text),
        headers,
        secret_headers: secrets.map(|secret| secret.name.clone()).collect(),
    })
}
