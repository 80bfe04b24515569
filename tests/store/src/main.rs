//! `test-store`: the tests' S3 server as a program, for demonstrations and
//! benchmarks. What it holds goes with it.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use test_store::{Setup, Store};

/// An S3 server whose objects go when it ends
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Address to listen on; with the port 0 a free one is taken, and said
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// A bucket that is there from the beginning
    #[arg(long = "bucket")]
    buckets: Vec<String>,
    /// Folder on whose file system the bytes are
    #[arg(long)]
    folder: Option<PathBuf>,
    /// The only access key that is let in
    #[arg(long, env = "AWS_ACCESS_KEY_ID", default_value = test_store::KEYS.0)]
    access_key_id: String,
    /// Its secret key
    #[arg(long, env = "AWS_SECRET_ACCESS_KEY", default_value = test_store::KEYS.1, hide_env_values = true)]
    secret_access_key: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let folder = arguments.folder.unwrap_or_else(std::env::temp_dir);
    let setup = Setup {
        address: arguments.listen.ip(),
        port: arguments.listen.port(),
        keys: (arguments.access_key_id, arguments.secret_access_key),
        buckets: arguments.buckets,
        folder,
        ..Setup::default()
    };
    let store = Store::start(setup)
        .await
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    println!("{}", store.address);
    std::future::pending().await
}
