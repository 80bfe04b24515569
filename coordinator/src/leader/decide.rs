//! Who may hold the Lease. Pure: time is an argument.
//!
//! Invariant: a Lease that somebody else holds is taken only after it was
//! *seen* unchanged for its whole duration on the local monotonic clock;
//! what the holder's clock wrote into it counts for nothing.

use std::time::{Duration, Instant};

/// What the Lease says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Changes with every write of the Lease.
    pub version: String,
    /// Who holds it.
    pub holder: Option<String>,
    /// How long it holds without being renewed.
    pub duration: Duration,
}

/// The version of the Lease that was seen last, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    version: String,
    since: Instant,
}

/// A right to write oneself into the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whether the Lease was not this candidate's before.
    pub takes_over: bool,
}

/// What to do about the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Write oneself into it.
    Hold(Claim),
    /// Leave it to its holder.
    Follow {
        /// Who holds it.
        holder: String,
    },
}

/// What `me` does about the Lease that was `found` at `now`; `watched` is
/// what was seen of it before, and is brought up to date.
pub fn decide(
    found: Option<&Record>,
    me: &str,
    watched: &mut Option<Watched>,
    now: Instant,
) -> Decision {
    let hold = |takes_over| Decision::Hold(Claim { takes_over });
    let Some(record) = found else {
        *watched = None;
        return hold(true);
    };
    let since = match watched {
        Some(seen) if seen.version == record.version => seen.since,
        _ => {
            *watched = Some(Watched {
                version: record.version.clone(),
                since: now,
            });
            now
        }
    };
    match &record.holder {
        None => hold(true),
        Some(holder) if holder == me => hold(false),
        Some(_) if now.duration_since(since) >= record.duration => hold(true),
        Some(holder) => Decision::Follow {
            holder: holder.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn record(version: &str, holder: Option<&str>) -> Record {
        Record {
            version: version.into(),
            holder: holder.map(Into::into),
            duration: LEASE,
        }
    }

    fn hold(takes_over: bool) -> Decision {
        Decision::Hold(Claim { takes_over })
    }

    fn follow() -> Decision {
        Decision::Follow {
            holder: "other".into(),
        }
    }

    #[test]
    fn a_lease_without_a_holder_is_taken() {
        let now = Instant::now();
        assert_eq!(decide(None, "me", &mut None, now), hold(true));
        let released = record("1", None);
        assert_eq!(decide(Some(&released), "me", &mut None, now), hold(true));
    }

    #[test]
    fn ones_own_lease_is_renewed() {
        let mine = record("1", Some("me"));
        let now = Instant::now();
        assert_eq!(decide(Some(&mine), "me", &mut None, now), hold(false));
    }

    #[test]
    fn a_lease_is_taken_only_after_it_was_seen_unchanged() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut watched = None;
        let mut turn = |version: &str, seconds| {
            let found = record(version, Some("other"));
            decide(Some(&found), "me", &mut watched, after(seconds))
        };
        assert_eq!(turn("1", 0), follow());
        assert_eq!(turn("1", 14), follow());
        // Renewed just in time: the count starts again.
        assert_eq!(turn("2", 15), follow());
        assert_eq!(turn("2", 29), follow());
        assert_eq!(turn("2", 30), hold(true));
    }

    #[test]
    fn the_duration_is_the_holders() {
        let mut short = record("1", Some("other"));
        short.duration = Duration::from_secs(1);
        let (start, mut watched) = (Instant::now(), None);
        assert_eq!(decide(Some(&short), "me", &mut watched, start), follow());
        let later = start + Duration::from_secs(1);
        assert_eq!(decide(Some(&short), "me", &mut watched, later), hold(true));
    }
}
