//! The journal: one file for each job, which survives any crash.
//!
//! Invariants: a record is on stable storage when [`Journal::write`] returns;
//! a crash at any moment leaves either the old record or the new one, whole;
//! a file that cannot be read is set aside and reported, never fatal and
//! never deleted. Only root reads the files, because a source's URL may be a
//! signed one.

mod directory;

use std::io;
use std::path::{Path, PathBuf};

use super::record::{Record, RecordError};
use super::spec::JobId;
use directory::{Directory, OsDirectory};

/// End of a record's file name.
const RECORD: &str = ".json";
/// End of the name of a file that is being written.
const TEMPORARY: &str = ".json.tmp";
/// End of the name of a file that cannot be read.
const CORRUPT: &str = ".corrupt";

/// The jobs of one agent on stable storage.
pub struct Journal {
    directory: Box<dyn Directory>,
}

/// What a journal held when it was opened.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Jobs in the order in which they were accepted.
    pub records: Vec<Record>,
    /// Files that are no records.
    pub set_aside: Vec<SetAside>,
}

/// A file that is no record and was renamed.
#[derive(Debug)]
pub struct SetAside {
    /// Name of the file before.
    pub name: String,
    /// What is wrong with it.
    pub cause: Unreadable,
}

/// Why a journal's file is no record.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The system does not give its bytes.
    #[error("cannot be read")]
    Io(#[source] io::Error),
    /// The bytes are no record.
    #[error(transparent)]
    Record(RecordError),
    /// The record belongs to another file name.
    #[error("holds the record of job {0}")]
    Misnamed(JobId),
}

/// A step on the journal that failed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The directory cannot be made or listed.
    #[error("cannot open the job journal at {path}")]
    Open {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A record cannot be stored.
    #[error("cannot store job {id}")]
    Write {
        /// The job.
        id: JobId,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A record cannot be removed.
    #[error("cannot remove job {id} from the journal")]
    Remove {
        /// The job.
        id: JobId,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

impl Journal {
    /// Opens or makes the journal in the directory `path` and reads all jobs.
    pub fn open(path: &Path) -> Result<(Self, Loaded), JournalError> {
        let open = || Self::load(Box::new(OsDirectory::create(path)?));
        open().map_err(|source| JournalError::Open {
            path: path.to_owned(),
            source,
        })
    }

    fn load(directory: Box<dyn Directory>) -> io::Result<(Self, Loaded)> {
        let mut loaded = Loaded::default();
        for name in directory.list()? {
            if name.ends_with(TEMPORARY) {
                // A write that a crash cut short: its job is in the old
                // record, or was never accepted.
                directory.remove(&name)?;
            } else if let Some(stem) = name.strip_suffix(RECORD) {
                match read(&*directory, &name, stem) {
                    Ok(record) => loaded.records.push(record),
                    Err(cause) => {
                        directory.rename(&name, &format!("{name}{CORRUPT}"))?;
                        loaded.set_aside.push(SetAside { name, cause });
                    }
                }
            }
        }
        directory.sync()?;
        loaded.records.sort_by_key(|r| r.sequence);
        Ok((Self { directory }, loaded))
    }

    /// Puts `record` on stable storage in place of the job's last one.
    ///
    /// Two writes for one job must not run at the same time.
    pub fn write(&self, record: &Record) -> Result<(), JournalError> {
        let name = format!("{}{RECORD}", record.id);
        let temporary = format!("{}{TEMPORARY}", record.id);
        let write = || {
            let bytes = record.to_bytes().map_err(io::Error::other)?;
            self.directory.write(&temporary, &bytes)?;
            self.directory.sync_file(&temporary)?;
            self.directory.rename(&temporary, &name)?;
            self.directory.sync()
        };
        write().map_err(|source| JournalError::Write {
            id: record.id.clone(),
            source,
        })
    }

    /// Forgets a job; one that is not there is forgotten already.
    pub fn remove(&self, id: &JobId) -> Result<(), JournalError> {
        let remove = || {
            match self.directory.remove(&format!("{id}{RECORD}")) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            self.directory.sync()
        };
        remove().map_err(|source| JournalError::Remove {
            id: id.clone(),
            source,
        })
    }
}

fn read(directory: &dyn Directory, name: &str, stem: &str) -> Result<Record, Unreadable> {
    let bytes = directory.read(name).map_err(Unreadable::Io)?;
    let record = Record::from_bytes(&bytes).map_err(Unreadable::Record)?;
    if record.id.as_str() == stem {
        Ok(record)
    } else {
        Err(Unreadable::Misnamed(record.id))
    }
}

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod tests;
