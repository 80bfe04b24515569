//! The journal's form of a job: JSON with a version field.
//!
//! Invariant: what one version of the agent wrote, the same version reads
//! back unchanged; a version it does not know is refused, never guessed.

use serde::{Deserialize, Serialize};

use super::spec::{ImportSpec, JobId};
use super::state::State;

/// Version of the form that is written.
const VERSION: u32 = 1;

/// One job as the journal keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Identity of the job.
    pub id: JobId,
    /// Order in which jobs were accepted.
    pub sequence: u64,
    /// What was asked for.
    pub spec: ImportSpec,
    /// How it stands.
    pub state: State,
}

#[derive(Serialize)]
struct Versioned<'a> {
    version: u32,
    #[serde(flatten)]
    record: &'a Record,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// Why bytes are no record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Not the JSON of a record.
    #[error("not a job record")]
    Malformed(#[from] serde_json::Error),
    /// Written by another version of the agent.
    #[error("a job record of version {0}, this agent reads version {VERSION}")]
    Version(u32),
}

impl Record {
    /// The bytes of the record's file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, RecordError> {
        Ok(serde_json::to_vec(&Versioned {
            version: VERSION,
            record: self,
        })?)
    }

    /// Reads the bytes of a record's file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        let Version { version } = serde_json::from_slice(bytes)?;
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        Ok(serde_json::from_slice(bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written before a job could say how its source is reached.
    const EARLIER: &str = r#"{"version":1,"id":"a","sequence":3,
        "spec":{"source":{"http":"http://h/i"},
            "volume":{"podUid":"7f","volumeName":"pvc-1","mode":"block"},
            "expected":{"format":"qcow2","virtualSize":4096,"sourceSize":null,
                "validator":null,"ranges":true}},
        "state":{"phase":"pending","progress":{"total":0,"done":0,"received":0,"written":0},
            "facts":null,"checkpoint":null}}"#;

    #[test]
    fn what_an_earlier_agent_wrote_is_read() {
        let record = Record::from_bytes(EARLIER.as_bytes()).unwrap();
        assert_eq!(record.spec.expected.unwrap().virtual_size, Some(4096));
        assert!(!record.spec.needs_access && record.spec.checksum.is_none());
        assert_eq!(record.state.digest, None);
    }
}
