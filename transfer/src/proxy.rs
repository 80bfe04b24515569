//! Which proxies requests go through, as whoever runs the engine says.

use crate::secret::Secret;

/// Proxies between the engine and its sources. Those who ask for imports have
/// no say in it. The default is none.
///
/// What a name leads to is the proxy's business: it resolves the names of the
/// requests that go through it, so [`AddressPolicy`](crate::AddressPolicy)
/// then judges addresses that are written as such (and `localhost`), and a
/// proxy has to keep its own inside to itself. The proxy's own address is not
/// judged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// The proxy for http addresses: `http://[user:password@]host[:port]`, or
    /// https; without a scheme it is http.
    pub http: Option<Secret>,
    /// The proxy for https addresses, likewise. It is asked for a tunnel, and
    /// sees nothing of what goes through.
    pub https: Option<Secret>,
    /// Hosts that are reached without a proxy, separated by commas: names
    /// (with all below them), addresses, networks (`10.0.0.0/8`), or `*`.
    pub except: String,
}

impl ProxySettings {
    /// What the environment says, read as curl does: `http_proxy` (in small
    /// letters only), `https_proxy`, `all_proxy` and `no_proxy` (and, where
    /// these are not set, their names in capitals). An empty value is none.
    ///
    /// Values are judged when a source is opened: one that is no proxy's
    /// address fails with the reason `InvalidProxy`.
    #[must_use]
    pub fn from_environment() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(value: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: &[&str]| {
            let mut values = names.iter().filter_map(|name| value(name));
            values.find(|value| !value.trim().is_empty())
        };
        let all = || first(&["all_proxy", "ALL_PROXY"]);
        Self {
            // In capitals it would be what a web server makes of a client's
            // header `Proxy` for the programs it runs.
            http: first(&["http_proxy"]).or_else(all).map(Secret::new),
            https: first(&["https_proxy", "HTTPS_PROXY"])
                .or_else(all)
                .map(Secret::new),
            except: first(&["no_proxy", "NO_PROXY"]).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> (Option<String>, Option<String>, String) {
        let settings = ProxySettings::from_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        let plain = |secret: Option<Secret>| secret.map(|secret| secret.reveal().to_owned());
        (plain(settings.http), plain(settings.https), settings.except)
    }

    #[test]
    fn the_environment_is_read_as_curl_reads_it() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read(&[]), (None, None, String::new()));
        assert_eq!(
            read(&[("HTTP_PROXY", "a"), ("HTTPS_PROXY", "b")]),
            (None, some("b"), String::new())
        );
        assert_eq!(
            read(&[
                ("http_proxy", "a"),
                ("https_proxy", "b"),
                ("HTTPS_PROXY", "c")
            ]),
            (some("a"), some("b"), String::new())
        );
        assert_eq!(
            read(&[("ALL_PROXY", "a"), ("https_proxy", ""), ("NO_PROXY", "b")]),
            (some("a"), some("a"), "b".into())
        );
    }

    #[test]
    fn a_proxys_password_is_not_shown() {
        let settings = ProxySettings {
            http: Some(Secret::new("http://me:hunter2@proxy")),
            ..ProxySettings::default()
        };
        assert!(!format!("{settings:?}").contains("hunter2"));
    }
}
