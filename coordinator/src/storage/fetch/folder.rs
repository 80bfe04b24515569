//! A file of a folder that is mounted in the coordinator.

use std::io::ErrorKind;
use std::time::Duration;

use hypercloud_storage::manifest::source::MAX_FILE;
use tokio::fs::{self, File};
use tokio::io::AsyncReadExt;

use super::trouble::Trouble;

/// The bytes of a file, which may be a link to one, as in every volume of a
/// ConfigMap.
pub(super) async fn read(path: &str, whole: Duration) -> Result<Vec<u8>, Trouble> {
    match tokio::time::timeout(whole, bytes(path)).await {
        Ok(read) => read,
        // A network's file system may hang.
        Err(_) => Err(Trouble::Unreachable(format!(
            "it was not read within {} s",
            whole.as_secs()
        ))),
    }
}

async fn bytes(path: &str) -> Result<Vec<u8>, Trouble> {
    let no = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Trouble::Missing,
        _ => Trouble::Refused(error.to_string()),
    };
    // A pipe would be waited for.
    let meta = fs::metadata(path).await.map_err(no)?;
    if !meta.is_file() {
        return Err(Trouble::Refused("it is no file".to_owned()));
    }
    let file = File::open(path).await.map_err(no)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .await
        .map_err(no)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Trouble::TooLarge);
    }
    Ok(bytes)
}
