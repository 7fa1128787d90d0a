use std::error::Error as _;

use tempfile::TempDir;

use super::*;
use crate::engine::fake::{self, Answers, Seen, VERSION};

async fn engine(answers: Answers) -> (TempDir, Docker, Seen) {
    let directory = TempDir::new().unwrap();
    let socket = directory.path().join("engine.sock");
    let seen = fake::serve(&socket, answers);
    let docker = Docker::connect_to(&format!("unix://{}", socket.display())).await.unwrap();
    (directory, docker, seen)
}

fn build() -> ImageBuild {
    ImageBuild::from_variables(ImageTarget::Base, |_| None)
}

#[test]
fn what_reaches_the_package_index_is_taken_from_the_environment() {
    let build = ImageBuild::from_variables(ImageTarget::Data, |name| match name {
        "SSL_CERT_FILE" => Some("/etc/bundle.pem".to_owned()),
        "PIP_CERT" => Some(String::new()),
        "https_proxy" => Some("http://proxy:3128".to_owned()),
        _ => None,
    });
    assert_eq!(build.ca_bundle, Some("/etc/bundle.pem".into()));
    assert_eq!(build.arguments, HashMap::from([("https_proxy".to_owned(), "http://proxy:3128".to_owned())]));
    assert_eq!(build.tag, "cellblock:data");
}

#[tokio::test]
async fn what_is_not_a_package_is_refused() {
    let (_directory, docker, seen) = engine(&[VERSION]).await;
    for package in ["", "--index-url=x", "pandas >= 2", "a\nb"] {
        assert!(build().with([package]).run(&docker, drop).await.unwrap_err().is_usage(), "{package:?}");
    }
    let error = build().ca_bundle("/no/such/bundle").run(&docker, drop).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot read the CA bundle /no/such/bundle");
    assert_eq!(seen.requests(), ["GET /version"]);
}

#[tokio::test]
async fn a_build_is_told_line_by_line() {
    let answers: Answers = &[
        VERSION,
        (
            "POST /build",
            200,
            "{\"stream\":\"Step 1/2 : FROM own\"}\n{\"stream\":\"\\n\"}\n{\"stream\":\"Step 2/2 : RUN x\\n\"}\n\
             {\"stream\":\"one\\ntw\"}\n{\"stream\":\"o\"}\n{\"aux\":{\"ID\":\"sha256:1\"}}\n",
        ),
    ];
    let (_directory, docker, seen) = engine(answers).await;
    let mut events = Vec::new();
    let built = build().base("own").network("host").with(["a", "b"]).run(&docker, |event| events.push(event)).await;
    assert_eq!(built.unwrap(), "sha256:1");
    let events: Vec<_> = events.iter().map(|event| (event.step, event.total, event.text.as_str())).collect();
    assert_eq!(events, [(1, 2, "FROM own"), (2, 2, "RUN x"), (2, 2, "one"), (2, 2, "two")]);
    let request = seen.requests().pop().unwrap();
    for part in ["target=base", "networkmode=host", "t=cellblock%3Abase", "%22WITH%22%3A%22a+b%22"] {
        assert!(request.contains(part), "{part} in {request}");
    }
}

#[tokio::test]
async fn a_failed_step_is_named_with_its_last_lines() {
    let answers: Answers = &[
        VERSION,
        (
            "POST /build",
            200,
            "{\"stream\":\"Step 1/2 : FROM own\\n\"}\n{\"stream\":\"Step 2/2 : RUN pip\\n\"}\n\
             {\"stream\":\"\\u001b[91mTemporary failure in name resolution\\n\\u001b[0m\"}\n\
             {\"errorDetail\":{\"code\":1,\"message\":\"returned a non-zero code: 1\"},\"error\":\"x\"}\n",
        ),
    ];
    let (_directory, docker, _) = engine(answers).await;
    let error = build().base("own").run(&docker, drop).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot build image cellblock:base: step 2 of 2 (RUN pip) failed");
    let lines = error.source().unwrap().to_string();
    assert_eq!(lines, "Temporary failure in name resolution\nreturned a non-zero code: 1");
    assert!(error.hint().unwrap().contains("PIP_INDEX_URL"));
}

#[tokio::test]
async fn a_base_that_cannot_be_had_is_told_with_the_ways_out() {
    let answers: Answers = &[
        VERSION,
        (
            "POST /build",
            200,
            "{\"stream\":\"Step 1/2 : FROM ${BASE} AS x\\n\"}\n\
             {\"errorDetail\":{\"message\":\"dial tcp: no such host\"},\"error\":\"x\"}\n",
        ),
    ];
    let (_directory, docker, seen) = engine(answers).await;
    let error = build().run(&docker, drop).await.unwrap_err();
    assert!(error.is_image_missing());
    assert_eq!(error.to_string(), "cannot build image cellblock:base: its base image python:3.13-slim cannot be had");
    assert!(error.hint().unwrap().contains("kernel-image/quickstart"));
    assert!(seen.requests().iter().any(|request| request.contains("/images/cellblock-debian-base:trixie/json")));
}
