//! The journal's form of a job: JSON with a version field.
//!
//! Invariants: what one version of the agent wrote, the same version and the
//! later ones read back unchanged; a version it does not know is refused,
//! never guessed. An import is written as it was before there were copies,
//! and a copy as it was before there were exports, so that an agent that is
//! put back to such a version still finds it.

use serde::{Deserialize, Serialize};

use super::spec::{ImportSpec, JobId, JobSpec};
use super::state::State;

/// Version of the form whose spec is that of an import.
const IMPORT: u32 = 1;
/// Version of the form whose spec says what kind of job it is: at first an
/// import or a copy.
const COPY: u32 = 2;
/// Version of that form whose spec may be an export.
const ANY: u32 = 3;

/// One job as the journal keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Identity of the job.
    pub id: JobId,
    /// Order in which jobs were accepted.
    pub sequence: u64,
    /// What was asked for.
    pub spec: JobSpec,
    /// How it stands.
    pub state: State,
}

/// The JSON that is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a, S> {
    version: u32,
    id: &'a JobId,
    sequence: u64,
    spec: &'a S,
    state: &'a State,
}

/// The JSON that is read, once its version is known.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read<S> {
    id: JobId,
    sequence: u64,
    spec: S,
    state: State,
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
    #[error("a job record of version {0}, this agent reads versions {IMPORT} to {ANY}")]
    Version(u32),
}

impl Record {
    /// The bytes of the record's file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, RecordError> {
        match &self.spec {
            JobSpec::Import(import) => self.written(IMPORT, import),
            JobSpec::Copy(_) => self.written(COPY, &self.spec),
            JobSpec::Export(_) => self.written(ANY, &self.spec),
        }
    }

    fn written<S: Serialize>(&self, version: u32, spec: &S) -> Result<Vec<u8>, RecordError> {
        Ok(serde_json::to_vec(&Written {
            version,
            id: &self.id,
            sequence: self.sequence,
            spec,
            state: &self.state,
        })?)
    }

    /// Reads the bytes of a record's file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        let Version { version } = serde_json::from_slice(bytes)?;
        match version {
            IMPORT => Ok(serde_json::from_slice::<Read<ImportSpec>>(bytes)?.into()),
            COPY | ANY => Ok(serde_json::from_slice::<Read<JobSpec>>(bytes)?.into()),
            other => Err(RecordError::Version(other)),
        }
    }
}

impl<S: Into<JobSpec>> From<Read<S>> for Record {
    fn from(read: Read<S>) -> Self {
        Self {
            id: read.id,
            sequence: read.sequence,
            spec: read.spec.into(),
            state: read.state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::state::Phase;

    /// Written before a job could say how its source is reached.
    const EARLIER: &str = r#"{"version":1,"id":"a","sequence":3,
        "spec":{"source":{"http":"http://h/i"},
            "volume":{"podUid":"7f","volumeName":"pvc-1","mode":"block"},
            "expected":{"format":"qcow2","virtualSize":4096,"sourceSize":null,
                "validator":null,"ranges":true}},
        "state":{"phase":"pending","progress":{"total":0,"done":0,"received":0,"written":0},
            "facts":null,"checkpoint":null}}"#;

    /// As the last version before copies wrote it, in mid-import.
    const FORMER: &str = r#"{"version":1,"id":"5f0c-1","sequence":12,"spec":{"source":{"objectStore":{"bucket":"b","key":"k","endpoint":"http://s3.test/","region":null,"pathStyle":true}},"volume":{"podUid":"7f","volumeName":"pvc-1","mode":"filesystem"},"expected":{"format":"raw","packing":null,"virtualSize":4096,"sourceSize":4096,"validator":"\"e\"","ranges":true},"checksum":"sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a","format":"raw","preallocation":true,"needsAccess":true},"state":{"phase":"transferring","progress":{"total":4096,"done":512,"received":600,"written":512},"facts":{"format":"raw","packing":null,"virtualSize":4096,"sourceSize":4096,"validator":"\"e\"","ranges":true},"checkpoint":{"layout":1},"digest":null}}"#;

    fn import(record: &Record) -> &ImportSpec {
        match &record.spec {
            JobSpec::Import(import) => import,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_an_earlier_agent_wrote_is_read() {
        let record = Record::from_bytes(EARLIER.as_bytes()).unwrap();
        let spec = import(&record);
        assert_eq!(spec.expected.as_ref().unwrap().virtual_size, Some(4096));
        assert!(!record.spec.needs_access() && spec.checksum.is_none());
        assert_eq!(record.state.digest, None);
    }

    #[test]
    fn the_former_agents_imports_are_read_and_written_as_they_were() {
        let record = Record::from_bytes(FORMER.as_bytes()).unwrap();
        assert_eq!((record.id.as_str(), record.sequence), ("5f0c-1", 12));
        assert!(record.spec.needs_access() && import(&record).preallocation);
        let target = record.spec.target().unwrap();
        assert_eq!(target.volume_name.as_str(), "pvc-1");
        assert_eq!(record.state.phase, Phase::Transferring);
        assert_eq!(record.state.progress.received, 600);
        let written = String::from_utf8(record.to_bytes().unwrap()).unwrap();
        assert_eq!(written, FORMER);
    }

    #[test]
    fn a_copy_has_a_version_that_a_former_agent_does_not_guess_at() {
        const COPY: &str = r#"{"version":2,"id":"c","sequence":0,"spec":{"copy":{"source":{"podUid":"7f","volumeName":"pvc-1","mode":"block"},"target":{"podUid":"7f","volumeName":"pvc-2","mode":"filesystem"},"onlyDifferences":true}},"state":{"phase":"pending","progress":{"total":0,"done":0,"received":0,"written":0},"facts":null,"checkpoint":{"offset":7},"digest":null}}"#;
        let record = Record::from_bytes(COPY.as_bytes()).unwrap();
        assert!(matches!(&record.spec, JobSpec::Copy(copy) if copy.only_differences));
        assert_eq!(record.spec.source().unwrap().volume_name.as_str(), "pvc-1");
        let target = record.spec.target().unwrap();
        assert_eq!(target.volume_name.as_str(), "pvc-2");
        assert!(!record.spec.needs_access());
        let written = String::from_utf8(record.to_bytes().unwrap()).unwrap();
        assert_eq!(written, COPY);
        let import = COPY.replacen("\"version\":2", "\"version\":1", 1);
        assert!(matches!(
            Record::from_bytes(import.as_bytes()),
            Err(RecordError::Malformed(_))
        ));
    }
    #[test]
    fn an_export_is_read_as_it_was_written() {
        const HALF: &str = r#"{"version":3,"id":"e","sequence":4,"spec":{"export":{"volume":{"podUid":"7f","volumeName":"pvc-1","mode":"block"},"object":{"bucket":"b","key":"k","endpoint":"http://s3.test/","region":null,"pathStyle":true},"format":{"qcow2":"zlib"},"overwrite":false,"digest":true,"needsAccess":true}},"state":{"phase":"transferring","progress":{"total":4096,"done":512,"received":512,"written":100},"facts":null,"checkpoint":{"at":7},"digest":null,"upload":"u-1"}}"#;
        let record = Record::from_bytes(HALF.as_bytes()).unwrap();
        assert_eq!(record.spec.source().unwrap().volume_name.as_str(), "pvc-1");
        assert_eq!(record.spec.target(), None);
        assert_eq!(record.spec.to_where(), "s3://b/k");
        assert!(record.spec.needs_access());
        assert_eq!(record.state.upload.as_deref(), Some("u-1"));
        let written = String::from_utf8(record.to_bytes().unwrap()).unwrap();
        assert_eq!(written, HALF);
        // To an agent that knows no exports it is of a version that it does
        // not know, rather than no record.
        let Version { version } = serde_json::from_str(HALF).unwrap();
        assert!(version > COPY);
    }
}
