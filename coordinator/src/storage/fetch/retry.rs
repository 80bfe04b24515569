//! When what failed is tried again. Pure.

use std::time::Duration;

use hypercloud_api::ManifestMirror;
use hypercloud_storage::manifest::ManifestError;

use crate::backoff::Backoff;

/// Delays of the tries after an error, of which the shortest is `again`.
///
/// What is in the cluster is looked at often: it costs little, and whoever
/// puts it right waits for it. A file that is not what was released is not
/// another one a second later.
pub(super) fn delays(
    error: &ManifestError,
    mirror: Option<&ManifestMirror>,
    again: Duration,
) -> Backoff {
    let is_near = mirror.is_some_and(|mirror| mirror.http.is_none());
    let is_another = matches!(
        error,
        ManifestError::WrongChecksum { .. }
            | ManifestError::TooLarge { .. }
            | ManifestError::NoManifest { .. }
    );
    let (first, most) = match (is_near, is_another) {
        (true, _) => (1, 4),
        (false, true) => (2, 24),
        (false, false) => (1, 24),
    };
    Backoff {
        base: again * first,
        cap: again * most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_looked_at_often_and_a_wrong_file_slowly() {
        let second = Duration::from_secs(1);
        let gone = ManifestError::Missing {
            path: "p".into(),
            place: "x".into(),
        };
        let wrong = ManifestError::WrongChecksum {
            path: "p".into(),
            expected: "a".into(),
            found: "b".into(),
        };
        let folder = ManifestMirror {
            folder: Some("/m".into()),
            ..Default::default()
        };
        let longest = |error, mirror| delays(error, mirror, 5 * second).delay("p", 20);
        assert!(longest(&wrong, Some(&folder)) <= 20 * second);
        assert!(longest(&gone, None) > 30 * second);
        assert!(longest(&gone, None) <= 120 * second);
        let first = |error| delays(error, None, 5 * second).delay("p", 1);
        assert!(first(&gone) <= 10 * second);
        assert!(first(&wrong) >= 10 * second);
    }
}
