//! Who may call.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::support::{NEW, Server, answer, assert_refused, image, state, text};

#[tokio::test]
async fn without_the_token_that_it_printed_nobody_is_let_in() {
    let Some(server) = Server::start(&[]) else { return };
    let token = server.token.clone().unwrap();
    assert_eq!(token.len(), 64);
    let list = format!("{}/listSessions?api-version={NEW}", server.address);
    for request in [
        server.client.get(&list),
        server.client.get(&list).bearer_auth(""),
        server.client.get(&list).bearer_auth(&token[1..]),
        server.client.get(&list).bearer_auth(format!("{token}x")),
        server.client.get(&list).header("authorization", format!("Basic {token}")),
        server.client.get(format!("{}/metrics", server.address)),
        server.client.get(format!("{}/openapi.json", server.address)),
        server.client.get(format!("{}/v1/sessions", server.address)),
    ] {
        let response = request.send().await.unwrap();
        assert_refused(&response, 401, "Unauthorized");
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
    }
    assert_eq!(server.client.get(&list).bearer_auth(&token).send().await.unwrap().status(), StatusCode::OK);
    assert_eq!(server.client.get(format!("{}/health", server.address)).send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn tokens_come_from_a_file_and_are_not_printed() {
    let directory = state();
    let file = directory.path().join("tokens");
    std::fs::write(&file, "first-token-of-two\n\nsecond-token-of-two\n").unwrap();
    let Some(server) = Server::start(&["--token-file", text(&file)]) else { return };
    assert!(server.token.is_none() && !server.said.join("\n").contains("token-of-two"));
    for token in ["first-token-of-two", "second-token-of-two"] {
        let list = server.client.get(format!("{}/v1/sessions", server.address)).bearer_auth(token);
        assert_eq!(list.send().await.unwrap().status(), StatusCode::OK);
    }
}

#[test]
fn what_would_let_everybody_in_is_no_usage() {
    let directory = state();
    let empty = directory.path().join("empty");
    std::fs::write(&empty, "\n").unwrap();
    let missing = directory.path().join("missing");
    for (args, said) in [
        (&["--no-auth", "--listen", "0.0.0.0:0"][..], "--no-auth"),
        (&["--token-file", text(&empty)], "no usable token"),
        (&["--token-file", text(&missing)], "cannot read the tokens"),
        (&["--tls-listen", "127.0.0.1:0"], "--tls-self-signed"),
        (&["--msi", "--msi-secret", "short"], "16 characters"),
        (&["--allow-origin", "*"], "--allow-origin"),
        (&["--allow-origin", "https://app.example/"], "--allow-origin"),
        (&["--timeout", "25h"], "--timeout"),
        (&["--idle-timeout", "31d"], "--idle-timeout"),
        (&["--max-life", "30d"], "--max-life"),
        (&["--warm", "3", "--max-sessions", "2"], "--warm"),
        (&["--tls-cert", "x"], "--tls-key"),
        (&["--workdir", "/tmp"], "--workdir"),
    ] {
        let ended = Command::new(env!("CARGO_BIN_EXE_cellblock")).arg("serve").args(args).output().unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert!(!ended.status.success() && stderr.contains(said), "{args:?}: {stderr}");
    }
}

#[tokio::test]
async fn pages_of_other_sites_are_not_let_in() {
    let Some(server) =
        Server::start(&["--no-auth", "--allow-host", "box.example", "--allow-origin", "https://app.example"])
    else {
        return;
    };
    let with = async |header: &str, value: &str| server.get("/v1/sessions").header(header, value).send().await.unwrap();
    for (header, value) in [("host", "evil.example"), ("origin", "http://evil.example"), ("origin", "null")] {
        assert_refused(&with(header, value).await, 403, "Forbidden");
    }
    for (header, value) in
        [("host", "localhost"), ("host", "box.example"), ("origin", "https://app.example"), ("origin", &server.address)]
    {
        assert_eq!(with(header, value).await.status(), StatusCode::OK, "{header}: {value}");
    }
}

#[tokio::test]
async fn a_browser_learns_which_pages_may_call_and_read_the_answer() {
    let Some(server) = Server::start(&["--allow-origin", "https://App.example"]) else { return };
    let allowed = |response: &Response| {
        response.headers().get("access-control-allow-origin").map(|origin| origin.to_str().unwrap().to_owned())
    };
    let ask = async |origin: &str| {
        let ask = server.client.request(Method::OPTIONS, format!("{}/v1/sessions", server.address));
        let ask = ask.header("origin", origin).header("access-control-request-method", "POST");
        ask.header("access-control-request-headers", "authorization,content-type").send().await.unwrap()
    };
    let told = ask("https://app.example").await;
    assert_eq!((told.status(), allowed(&told).as_deref()), (StatusCode::OK, Some("https://app.example")));
    for (header, word) in [("access-control-allow-headers", "authorization"), ("access-control-allow-methods", "POST")]
    {
        assert!(told.headers()[header].to_str().unwrap().contains(word), "{header}");
    }
    assert_eq!(allowed(&ask("https://evil.example").await), None);
    let list = server.get("/v1/sessions").header("origin", "https://app.example").send().await.unwrap();
    assert_eq!((list.status(), allowed(&list).as_deref()), (StatusCode::OK, Some("https://app.example")));
    let list = server.client.get(format!("{}/v1/sessions", server.address)).header("origin", "https://app.example");
    let refused = list.send().await.unwrap();
    assert_refused(&refused, 401, "Unauthorized");
    assert!(allowed(&refused).is_some(), "the page reads why");
}

#[tokio::test]
async fn the_managed_identity_gives_out_the_token_to_who_has_its_secret() {
    let Some(server) = Server::start(&["--msi"]) else { return };
    let value = |name: &str| server.said.iter().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
    let (endpoint, secret) = (value("IDENTITY_ENDPOINT="), value("IDENTITY_HEADER="));
    let ask = |secret: &str| {
        let query = "api-version=2019-08-01&resource=https://dynamicsessions.io";
        server.client.get(format!("{endpoint}?{query}")).header("X-IDENTITY-HEADER", secret)
    };
    let (status, body) = answer(ask(&secret)).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&body["token_type"], &body["resource"]), (&json!("Bearer"), &json!("https://dynamicsessions.io")));
    assert!(body["expires_on"].as_str().unwrap().parse::<u64>().unwrap() > 1_700_000_000);
    let list = server.client.get(format!("{}/v1/sessions", server.address));
    assert_eq!(list.bearer_auth(body["access_token"].as_str().unwrap()).send().await.unwrap().status(), StatusCode::OK);
    for wrong in ["", "0123456789abcdef", &secret[1..]] {
        assert_refused(&ask(wrong).send().await.unwrap(), 401, "Unauthorized");
    }
    assert_refused(&server.client.get(&endpoint).send().await.unwrap(), 401, "Unauthorized");
}

#[tokio::test]
async fn tls_with_our_own_authority_is_trusted_by_who_trusts_it() {
    let Ok(python) = std::env::var("CELLBLOCK_TEST_PYTHON") else { return };
    let directory = state();
    let args = ["--no-auth", "--tls-self-signed", "--tls-listen", "127.0.0.1:0", "--state-dir", text(directory.path())];
    let Some(server) = Server::start(&args) else { return };
    let https = server.said.iter().find_map(|line| line.strip_prefix("listening on https:")).unwrap();
    let authority = server.said.iter().find_map(|line| line.strip_prefix("certificate authority ")).unwrap();
    let key = directory.path().join("tls/authority.key");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    // A client that we did not write, with its strict defaults.
    let get = |trust: &str| {
        let code = format!(
            "import ssl, urllib.request as r\nprint(r.urlopen('https:{https}/health', context=ssl.create_default_context(cafile={trust})).status)"
        );
        Command::new(&python).args(["-c", &code]).output().unwrap()
    };
    let trusted = get(&format!("'{authority}'"));
    assert_eq!(String::from_utf8_lossy(&trusted.stdout), "200\n", "{}", String::from_utf8_lossy(&trusted.stderr));
    assert!(String::from_utf8_lossy(&get("None").stderr).contains("CERTIFICATE_VERIFY_FAILED"));
    assert!(image().is_some());
    let before = std::fs::read(authority).unwrap();
    drop(server);
    let Some(server) = Server::start(&args) else { return };
    let again: Value = json!(server.said);
    assert!(again.to_string().contains("certificate authority"));
    assert_eq!(std::fs::read(directory.path().join("tls/authority.pem")).unwrap(), before);
}
