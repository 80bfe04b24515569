//! Proxies: requests that go through one, around it, and nowhere.

use std::sync::{Arc, Mutex};

use hypercloud_transfer::{
    AddressPolicy, HttpAccess, Options, ProxySettings, Secret, SourceSpec, TransferError, probe,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::image::{assert_same, disk};
use crate::server::{Reply, Server};
use crate::trust::{authority, trusting};
use crate::watch::{file, http, http_with, options, run};

/// A proxy: forwards requests of whole URLs, and makes tunnels. Every name
/// leads to loopback.
struct Proxy {
    port: u16,
    /// The first line of each connection.
    seen: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

/// `me:hunter2`.
const CREDENTIALS: &str = "proxy-authorization: Basic bWU6aHVudGVyMg==";

impl Proxy {
    /// One that asks for credentials, or not.
    async fn start(strict: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let log = Arc::clone(&log);
                tokio::spawn(async move {
                    let _ = pass(stream, &log, strict).await;
                });
            }
        });
        Self { port, seen, task }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// Options with this proxy for everything.
    fn options(&self, user: &str, except: &str) -> Options {
        through(&format!("http://{user}127.0.0.1:{}", self.port), except)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn through(proxy: &str, except: &str) -> Options {
    Options {
        retries: 0,
        proxies: ProxySettings {
            http: Some(Secret::new(proxy)),
            https: Some(Secret::new(proxy)),
            except: except.into(),
        },
        ..options()
    }
}

async fn pass(stream: TcpStream, log: &Mutex<Vec<String>>, strict: bool) -> std::io::Result<()> {
    let mut client = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if client.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    log.lock().unwrap().push(lines[0].clone());
    let known = |line: &String| line.eq_ignore_ascii_case(CREDENTIALS);
    if strict && !lines.iter().any(known) {
        client
            .write_all(b"HTTP/1.1 407 X\r\nContent-Length: 0\r\n\r\n")
            .await?;
        return Ok(());
    }
    let words: Vec<&str> = lines[0].split(' ').collect();
    let tunnel = words[0] == "CONNECT";
    let host = if tunnel {
        words[1]
    } else {
        words[1]
            .strip_prefix("http://")
            .unwrap()
            .split('/')
            .next()
            .unwrap()
    };
    let port = host.rsplit(':').next().unwrap();
    let Ok(mut server) = TcpStream::connect(format!("127.0.0.1:{port}")).await else {
        client
            .write_all(b"HTTP/1.1 502 X\r\nContent-Length: 0\r\n\r\n")
            .await?;
        return Ok(());
    };
    if tunnel {
        client.write_all(b"HTTP/1.1 200 X\r\n\r\n").await?;
    } else {
        // One request a connection is enough here.
        let path = words[1].split_once(host).unwrap().1;
        let mut head = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
        for line in &lines[1..] {
            assert!(!strict || known(line) || !line.to_lowercase().starts_with("proxy-"));
            head += &format!("{line}\r\n");
        }
        server.write_all(format!("{head}\r\n").as_bytes()).await?;
    }
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

async fn fetch(source: SourceSpec, options: &Options) -> Result<Vec<u8>, TransferError> {
    let target = tempfile::tempdir().unwrap();
    run(source, file(target.path()), options).await?;
    Ok(std::fs::read(target.path().join("disk.img")).unwrap())
}

#[tokio::test]
async fn requests_go_through_the_proxy_with_its_credentials() {
    let bytes = disk(44, 5 << 20);
    let (content, again) = (bytes.clone(), bytes.clone());
    let plain = Server::start(move |request| Reply::tagged(request, &content)).await;
    let (pem, tls) = authority(&["source.example"], false);
    let secure = Server::start_tls(tls, move |request| Reply::tagged(request, &again)).await;
    let proxy = Proxy::start(true).await;
    let known = proxy.options("me:hunter2@", "");

    // Names that only the proxy knows.
    let url = format!("http://source.example:{}/image", plain.port());
    assert_same(
        &fetch(http(&url), &known).await.unwrap(),
        &bytes,
        "forwarded",
    );
    let line = format!("GET {url} HTTP/1.1");
    assert!(
        proxy.seen().iter().all(|seen| *seen == line),
        "{:?}",
        proxy.seen()
    );
    assert!(
        !plain
            .seen()
            .iter()
            .any(|request| request.headers.contains_key("authorization")),
        "the proxy's credentials are the proxy's"
    );

    let url = format!("https://source.example:{}/image", secure.port());
    let source = http_with(&url, trusting(&pem));
    assert_same(&fetch(source, &known).await.unwrap(), &bytes, "tunnelled");
    let line = format!("CONNECT source.example:{} HTTP/1.1", secure.port());
    assert!(proxy.seen().contains(&line), "{:?}", proxy.seen());
    assert!(
        secure
            .seen()
            .iter()
            .all(|request| !request.headers.contains_key("proxy-authorization")),
        "the tunnel's end does not see them"
    );
    // Who is at the tunnel's end is judged as ever.
    let error = probe(&http(&url), &known).await.unwrap_err();
    assert_eq!(error.reason(), "CertificateInvalid");
}

#[tokio::test]
async fn exceptions_go_around_the_proxy() {
    let server = Server::start(|request| Reply::of(request, &[7; 512])).await;
    let proxy = Proxy::start(false).await;
    for except in ["127.0.0.1", "10.0.0.1,127.0.0.0/8", "*"] {
        let around = proxy.options("", except);
        probe(&http(&server.url("/image")), &around).await.unwrap();
    }
    assert_eq!(proxy.seen().len(), 0);
    let through = proxy.options("", "source.example");
    probe(&http(&server.url("/image")), &through).await.unwrap();
    assert_eq!(proxy.seen().len(), 1);
    // Each hop is judged by itself.
    let to = server.url("/image");
    let first = Server::start(move |_| Reply::status(302).header("Location", &to)).await;
    let url = format!("http://source.example:{}/image", first.port());
    let except = proxy.options("", "127.0.0.1");
    probe(&http(&url), &except).await.unwrap();
    assert_eq!(proxy.seen().len(), 2);
}

#[tokio::test]
async fn a_proxy_that_does_not_serve_is_named() {
    let strict = Proxy::start(true).await;
    let (plain, secure) = ("http://source.example/x", "https://source.example/x");
    for url in [plain, secure] {
        let error = probe(&http(url), &strict.options("you:word@", ""))
            .await
            .unwrap_err();
        assert_eq!(
            (error.reason(), error.is_retryable()),
            ("ProxyUnauthorized", false),
            "{url}: {}",
            error.message()
        );
        assert!(!format!("{} {error:?}", error.message()).contains("word"));
        let gone = probe(&http(url), &through("http://127.0.0.1:1", "")).await;
        let error = gone.unwrap_err();
        assert_eq!(
            (error.reason(), error.is_retryable()),
            ("ProxyFailed", true)
        );
        assert!(
            error.message().contains("127.0.0.1:1"),
            "{}",
            error.message()
        );
    }
    // It is there, and cannot reach the source.
    let proxy = Proxy::start(false).await;
    let error = probe(&http("https://source.example:1/x"), &proxy.options("", "")).await;
    assert_eq!(error.unwrap_err().reason(), "ProxyFailed");

    let error = probe(&http(plain), &through("socks5://127.0.0.1:1", "")).await;
    let error = error.unwrap_err();
    assert_eq!(
        (error.reason(), error.is_retryable()),
        ("InvalidProxy", false)
    );
}

#[tokio::test]
async fn a_proxy_is_no_way_around_the_policy() {
    let proxy = Proxy::start(false).await;
    let strict = Options {
        address_policy: AddressPolicy::PublicAndPrivate,
        ..proxy.options("", "")
    };
    for url in [
        "http://127.0.0.1/x",
        "http://169.254.169.254/x",
        "https://[::1]/x",
        "http://localhost/x",
    ] {
        let source = http_with(url, HttpAccess::default());
        let error = probe(&source, &strict).await.unwrap_err();
        assert_eq!(error.reason(), "AddressRefused", "{url}");
    }
    assert!(proxy.seen().is_empty(), "nothing was asked");
    // The proxy itself, on loopback here, is the operator's choice.
    let server = Server::start(|request| Reply::of(request, &[7; 512])).await;
    let url = format!("http://source.example:{}/x", server.port());
    probe(&http(&url), &strict).await.unwrap();
}
