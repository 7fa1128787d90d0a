//! That the server keeps to the document that it serves, by requests that nobody thought of.

use std::path::Path;
use std::process::Command;

use reqwest::Method;
use serde_json::json;

use crate::support::{Server, answer, state, text};

/// Has schemathesis make up requests for some 30 seconds. What a valid one asks for may be past this server's limits, or not be there.
#[track_caller]
fn assert_kept(server: &Server, directory: &Path, more: &[&str]) {
    let Ok(python) = std::env::var("CELLBLOCK_TEST_PYTHON") else { return };
    let config = directory.join("schemathesis.toml");
    let ended = Command::new(python)
        .args(["-m", "schemathesis.cli", "--config-file", text(&config), "run"])
        .arg(format!("{}/openapi.json", server.address))
        .args(["--header", &format!("Authorization: Bearer {}", server.token.as_deref().unwrap())])
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", "5", "--max-time", "30"])
        .args(["--exclude-checks", "positive_data_acceptance", "--request-timeout", "60", "--warnings", "off"])
        .args(more)
        .current_dir(directory)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && said.contains("generated"), "{said}{}", String::from_utf8_lossy(&ended.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn made_up_requests_find_no_server_error_and_no_break_of_the_document() {
    let Some(server) = Server::start(&["--max-sessions", "3"]) else { return };
    let directory = state();
    std::fs::write(directory.path().join("schemathesis.toml"), "").unwrap();
    tokio::task::block_in_place(|| assert_kept(&server, directory.path(), &[]));
}

#[tokio::test(flavor = "multi_thread")]
async fn made_up_requests_to_a_session_that_is_there_keep_to_the_document_too() {
    let Some(server) = Server::start(&["--max-sessions", "1", "--timeout", "5s"]) else { return };
    let new = server.request(Method::POST, "/v1/sessions").json(&json!({"identifier": "a"}));
    assert_eq!(answer(new).await.0.as_u16(), 201);
    let directory = state();
    let config = "[parameters]\n\"path.identifier\" = \"a\"\n";
    std::fs::write(directory.path().join("schemathesis.toml"), config).unwrap();
    let more = ["--exclude-method", "DELETE", "--exclude-path", "/v1/sessions"];
    tokio::task::block_in_place(|| assert_kept(&server, directory.path(), &more));
}
