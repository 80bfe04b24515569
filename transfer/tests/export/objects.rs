//! Objects, whole or not at all.

use hypercloud_transfer::{Side, presign};
use sha2::{Digest as _, Sha256};
use test_store::refusal;

use super::*;

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_disk_goes_in_parts_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let disk = mixed(folder.path(), 70 * MIB + 512);
    for format in FORMATS {
        let store = store().await;
        let mut asked = request(&disk, to(&store, "a/disk"), format);
        asked.digest = true;
        let watch = Arc::new(Watch::default());
        let cancel = CancellationToken::new();
        let done = export(asked, &options(), watch.clone(), cancel)
            .await
            .unwrap();
        let bytes = store.object("a/disk").unwrap();
        judge_bytes(&disk, &bytes, format);
        judge_import(&disk, SourceSpec::ObjectStore(object(&store, "a/disk"))).await;
        assert_eq!(store.uploads(), []);
        assert_eq!(done.size, bytes.len() as u64);
        assert_eq!(done.progress.written, done.size);
        assert_eq!(done.progress.done, 70 * MIB + 512);
        assert_eq!(unquoted(done.etag), store.etag("a/disk"));
        let parts = done.size.div_ceil(8 * MIB);
        let checksum = done.checksum.unwrap();
        assert!(checksum.starts_with("crc32c:"), "{checksum}");
        assert!(checksum.ends_with(&format!("-{parts}")), "{checksum}");
        let disk = sha256(&std::fs::read(&disk).unwrap());
        assert_eq!(done.digest.unwrap().to_string(), disk);
        let address = format!("{}/{BUCKET}/a/disk", store.endpoint());
        assert_eq!(done.address, Some(address));
        // An upload is known before any part of it is sent.
        let heard = watch.checkpoints.lock().unwrap();
        assert_eq!(heard[0].upload_id(), None);
        assert!(
            heard[1..]
                .iter()
                .all(|checkpoint| checkpoint.upload_id().is_some())
        );
        assert!(heard.len() > 3, "{}", heard.len());
        let progress = watch.progress.lock().unwrap();
        assert!(progress.is_sorted_by_key(|progress| progress.done));
        assert_eq!(progress.last(), Some(&done.progress));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_disk_goes_in_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let disk = mixed(folder.path(), 3 * MIB);
    for format in FORMATS {
        let store = store().await;
        let mut asked = request(&disk, to(&store, "disk"), format);
        asked.digest = true;
        let done = exported(asked).await.unwrap();
        let bytes = store.object("disk").unwrap();
        judge_bytes(&disk, &bytes, format);
        assert_eq!(done.size, bytes.len() as u64);
        assert_eq!(unquoted(done.etag), store.etag("disk"));
        assert!(done.checksum.unwrap().starts_with("crc32c:"));
        let disk = sha256(&std::fs::read(&disk).unwrap());
        assert_eq!(done.digest.unwrap().to_string(), disk);
        let asked = store.requests();
        assert!(
            asked.iter().all(|asked| !asked.contains("uploads")),
            "{asked:?}"
        );
    }
}

/// Small ones, of one request, and larger ones.
const SIZES: [u64; 2] = [3 * MIB, 40 * MIB];

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_replaced_only_where_that_is_asked() {
    for (size, conditional) in SIZES
        .into_iter()
        .flat_map(|size| [(size, true), (size, false)])
    {
        let folder = tempfile::tempdir().unwrap();
        let disk = mixed(folder.path(), size);
        let setup = Setup {
            conditional,
            ..Setup::with("disk", b"precious")
        };
        let store = Store::start(setup).await.unwrap();
        let mut asked = request(&disk, to(&store, "disk"), ZLIB);
        let error = exported(asked.clone()).await.unwrap_err();
        assert_eq!(error.reason(), "ObjectExists");
        assert_eq!(error.side(), Side::Target);
        assert!(!error.is_retryable());
        assert!(
            error.message().contains("s3://images/disk"),
            "{}",
            error.message()
        );
        // Nothing was sent before it was looked for.
        assert!(
            store
                .requests()
                .iter()
                .all(|asked| asked.starts_with("HEAD"))
        );
        asked.overwrite = true;
        exported(asked).await.unwrap();
        judge_bytes(&disk, &store.object("disk").unwrap(), ZLIB);

        // One that appears meanwhile is not replaced either.
        let shared = Arc::new(store);
        let watch = Watch {
            before_end: Some(Box::new({
                let store = Arc::clone(&shared);
                move || store.put("late", b"first").unwrap()
            })),
            ..Watch::default()
        };
        let asked = request(&disk, to(&shared, "late"), ZLIB);
        let cancel = CancellationToken::new();
        let error = export(asked, &options(), Arc::new(watch), cancel)
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "ObjectExists");
        assert_eq!(shared.object("late").unwrap(), b"first");
        assert_eq!(shared.uploads(), []);
    }
}

/// Who comes between the last look and the completion loses nothing where the
/// store knows the condition.
#[tokio::test(flavor = "multi_thread")]
async fn the_store_itself_decides_who_was_first() {
    for size in SIZES {
        let folder = tempfile::tempdir().unwrap();
        let disk = mixed(folder.path(), size);
        // Nobody is ever told that the object is there.
        let blind = Setup::with("disk", b"precious")
            .twisted(|parts, _| (parts.method == "HEAD").then(|| refusal(404, "NoSuchKey", "")));
        let store = Store::start(blind).await.unwrap();
        let error = exported(request(&disk, to(&store, "disk"), ZLIB))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "ObjectExists", "{}", error.message());
        assert_eq!(store.object("disk").unwrap(), b"precious");
        assert_eq!(store.uploads(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_lets_anybody_read_it() {
    let store = Store::start(Setup::with("disk", b"content")).await.unwrap();
    let mut named = object(&store, "disk");
    let url = presign(&named, Duration::from_secs(60), &options())
        .await
        .unwrap();
    assert!(format!("{url:?}") == "Secret(..)");
    let got = reqwest_get(url.reveal()).await;
    assert_eq!(got, b"content");
    // Nothing is asked of the store.
    assert_eq!(store.requests().len(), 1);
    named.store.credentials = ObjectStoreCredentials::Anonymous;
    let url = presign(&named, Duration::from_secs(60), &options())
        .await
        .unwrap();
    assert!(!url.reveal().contains('?'), "{}", url.reveal());
}

/// A plain GET, as curl does it.
async fn reqwest_get(url: &str) -> Vec<u8> {
    let output = Command::new("curl").args(["-sSf", url]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}
