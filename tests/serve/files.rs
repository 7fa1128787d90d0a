//! Files in the wire format of Azure's dynamic sessions.

use std::time::Duration;

use reqwest::multipart::{Form, Part};
use reqwest::{Body, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::support::{NEW, NEWEST, OLD, Server, answer, assert_refused};

fn upload(server: &Server, identifier: &str) -> RequestBuilder {
    server.request(Method::POST, &format!("/files/upload?identifier={identifier}&api-version={OLD}"))
}

fn file(name: &str, content: &str) -> Form {
    Form::new().part("file", Part::bytes(content.as_bytes().to_vec()).file_name(name.to_owned()))
}

/// A form as it is on the wire.
fn raw(name: &str, content: &str) -> String {
    format!(
        "--b\r\nContent-Type: text/plain\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{content}\r\n--b--\r\n"
    )
}

async fn names(server: &Server, identifier: &str) -> Vec<String> {
    let (status, body) = answer(server.get(&format!("/files?identifier={identifier}&api-version={OLD}"))).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let value = body["value"].as_array().unwrap();
    value.iter().map(|file| file["properties"]["filename"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_file_comes_in_is_seen_by_code_and_goes_out() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    assert!(names(&server, "a").await.is_empty());
    let (status, body) = answer(upload(&server, "a").multipart(file("/mnt/data/temperatures.csv", "a,b\n1,2\n"))).await;
    assert_eq!(status, StatusCode::OK);
    let properties = &body["value"][0]["properties"];
    assert_eq!((&properties["filename"], &properties["size"]), (&json!("temperatures.csv"), &json!(8)));
    assert!(properties["lastModifiedTime"].as_str().unwrap().ends_with('Z'));
    assert_eq!(server.execute("a", "open('/mnt/data/temperatures.csv').read()").await["result"], "a,b\n1,2\n");
    server.execute("a", "open('out.txt', 'w').write('from code')").await;
    assert_eq!(names(&server, "a").await, ["out.txt", "temperatures.csv"]);
    let response = server.get(&format!("/files/content/out.txt?identifier=a&api-version={OLD}")).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/plain");
    assert_eq!(response.headers()["content-disposition"], "attachment");
    assert_eq!(response.headers()["cache-control"], "no-store", "it may be written again within the second");
    assert!(response.headers()["last-modified"].to_str().unwrap().ends_with(" GMT"));
    assert_eq!(response.text().await.unwrap(), "from code");
    let (_, one) = answer(server.get(&format!("/files/out.txt?identifier=a&api-version={OLD}"))).await;
    let size = |file: &Value| (file["properties"]["filename"].clone(), file["properties"]["size"].clone());
    assert_eq!((&one["$id"], size(&one["value"][0])), (&json!("1"), (json!("out.txt"), json!(9))));
    // The other family's address, by this family's version.
    let response = server.get(&format!("/files/out.txt/content?identifier=a&api-version={OLD}")).send().await.unwrap();
    assert_eq!(response.text().await.unwrap(), "from code");
    let gone = server.request(Method::DELETE, &format!("/files/out.txt?identifier=a&api-version={OLD}"));
    assert_eq!(answer(gone).await, (StatusCode::OK, json!({"message": "file deleted successfully"})));
    assert_eq!(names(&server, "a").await, ["temperatures.csv"]);
    let response = server.get(&format!("/files/content/out.txt?identifier=a&api-version={OLD}")).send().await.unwrap();
    assert_refused(&response, 404, "FileNotFound");
}

#[tokio::test]
async fn a_file_may_have_the_name_of_the_uploads_address() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    assert_eq!(upload(&server, "a").multipart(file("upload", "12")).send().await.unwrap().status(), StatusCode::OK);
    let one = format!("/files/upload?identifier=a&api-version={NEW}");
    let (status, body) = answer(server.get(&one)).await;
    assert_eq!((status, &body["name"], &body["sizeInBytes"]), (StatusCode::OK, &json!("upload"), &json!(2)));
    let gone = server.request(Method::DELETE, &one).send().await.unwrap();
    assert_eq!(gone.status(), StatusCode::NO_CONTENT);
    assert_refused(&server.get(&one).send().await.unwrap(), 404, "FileNotFound");
}

#[tokio::test]
async fn the_newer_family_has_directories() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let post = server.request(Method::POST, &format!("/files?identifier=a&api-version={NEW}&path=/mnt/data/runs/1"));
    let (status, body) = answer(post.multipart(file("out.csv", "12"))).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&body["name"], &body["type"], &body["sizeInBytes"]), (&json!("out.csv"), &json!("file"), &json!(2)));
    assert_eq!((&body["directory"], &body["contentType"]), (&json!("runs/1"), &json!("text/csv")));
    let list = async |query: &str| {
        let (_, body) = answer(server.get(&format!("/files?identifier=a&api-version={NEWEST}{query}"))).await;
        let value = body["value"].as_array().unwrap().clone();
        value
            .iter()
            .map(|file| format!("{} {}", file["type"].as_str().unwrap(), file["name"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(list("").await, ["directory runs"]);
    for same in ["runs/1", "/runs/1", "/mnt/data/runs/1", "runs/1/"] {
        assert_eq!(list(&format!("&path={same}")).await, ["file out.csv"], "{same}");
    }
    assert_eq!(list("&recursive=true").await, ["directory runs", "directory 1", "file out.csv"]);
    for path in [
        "/files/runs/1/out.csv/content?",
        "/files/runs/1/out.csv/content/?",
        "/files/runs%2F1%2Fout.csv/content?",
        "/files/out.csv/content?path=runs/1&",
    ] {
        let response = server.get(&format!("{path}identifier=a&api-version={NEW}")).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/octet-stream");
        assert_eq!(response.text().await.unwrap(), "12", "{path}");
    }
    // The other family's address, by this family's version.
    let response =
        server.get(&format!("/files/content/runs/1/out.csv?identifier=a&api-version={NEW}")).send().await.unwrap();
    assert_eq!(response.text().await.unwrap(), "12");
    let (_, one) = answer(server.get(&format!("/files/runs/1/out.csv?identifier=a&api-version={NEW}"))).await;
    assert_eq!(one["name"], "out.csv");
    let gone = server.request(Method::DELETE, &format!("/files/runs/1/out.csv?identifier=a&api-version={NEW}"));
    assert_eq!(gone.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    let response = server.get(&format!("/files?identifier=a&api-version={NEW}&path=nowhere")).send().await.unwrap();
    assert_refused(&response, 404, "FileNotFound");
}

#[tokio::test]
async fn forms_of_published_clients_are_read() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    // Another content type than the body has, as Semantic Kernel sends it.
    let (status, body) =
        answer(upload(&server, "a").header("content-type", "application/json").body(raw("/mnt/data/sub/sk.txt", "1")))
            .await;
    assert_eq!(status, StatusCode::OK, "{body}");
    // In chunks, and the name in percent escapes, as AutoGen sends it.
    let bytes = raw("t%20%C3%BC%25+.txt", "2").into_bytes();
    let chunks = bytes.chunks(7).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect::<Vec<_>>();
    let chunked = Body::wrap_stream(futures_util::stream::iter(chunks));
    let (status, body) =
        answer(upload(&server, "a").header("content-type", "multipart/form-data; boundary=b").body(chunked)).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    // A name in UTF-8 as it is.
    let (status, _) = answer(
        upload(&server, "a").header("content-type", "multipart/form-data; boundary=b").body(raw("größe.txt", "3")),
    )
    .await;
    assert_eq!(status, StatusCode::OK);
    // Two at once.
    let two = file("a.txt", "a").part("file", Part::bytes(b"b".to_vec()).file_name("b.txt"));
    let (_, body) = answer(upload(&server, "a").multipart(two)).await;
    assert_eq!(body["value"].as_array().unwrap().len(), 2);
    assert_eq!(names(&server, "a").await, ["a.txt", "b.txt", "größe.txt", "sub/sk.txt", "t ü%+.txt"]);
    let response =
        server.get(&format!("/files/content/t%20%C3%BC%25+.txt?identifier=a&api-version={OLD}")).send().await.unwrap();
    assert_eq!(response.text().await.unwrap(), "2");
}

#[tokio::test]
async fn forms_that_are_none_and_names_that_lead_out_are_refused() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let form = "multipart/form-data; boundary=b";
    for (content_type, body) in [
        (form, String::new()),
        (form, "no form".into()),
        (form, "--b\r\n".into()),
        (form, raw("x.txt", "cut").replace("--b--", "")),
        (form, "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nnameless\r\n--b--\r\n".into()),
        (form, "--b\r\nContent-Disposition: form-data; name=\"other\"; filename=\"o\"\r\n\r\n1\r\n--b--\r\n".into()),
        ("application/json", "{}".into()),
        ("text/plain", "--".into()),
        (form, raw("", "1")),
        (form, raw("../out", "1")),
        (form, raw("%2e%2e/out", "1")),
        (form, raw("/etc/passwd/..", "1")),
        (form, raw("a%00b", "1")),
    ] {
        let response =
            upload(&server, "a").header("content-type", content_type).body(body.clone()).send().await.unwrap();
        assert_refused(&response, 400, "SessionRequestValidationFailed");
    }
    for name in ["..%2F..%2Fetc%2Fpasswd", "sub/..%2f..%2fetc/passwd", "%2Fetc%2Fpasswd%2F..%2Fpasswd"] {
        let response =
            server.get(&format!("/files/content/{name}?identifier=a&api-version={OLD}")).send().await.unwrap();
        assert_refused(&response, 400, "SessionRequestValidationFailed");
    }
    server.execute("a", "import os; os.symlink('/etc/passwd', 'link')").await;
    let response = server.get(&format!("/files/content/link?identifier=a&api-version={OLD}")).send().await.unwrap();
    assert_refused(&response, 400, "SessionRequestValidationFailed");
    assert!(names(&server, "a").await.is_empty());
}

#[tokio::test]
async fn an_upload_past_the_limit_leaves_nothing() {
    let Some(server) = Server::start(&["--no-auth", "--max-upload", "1m"]) else { return };
    let most = "x".repeat(1 << 20);
    let (status, body) = answer(upload(&server, "a").multipart(file("most.bin", &most))).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let response = upload(&server, "a").multipart(file("more.bin", &format!("{most}x"))).send().await.unwrap();
    assert_refused(&response, 413, "RequestTooLarge");
    assert_eq!(names(&server, "a").await, ["most.bin"]);
    assert_eq!(server.execute("a", "import os; os.listdir('/mnt/data')").await["result"], "['most.bin']");
}

#[tokio::test]
async fn a_byte_more_than_128_mb_is_too_much_and_none_of_it_is_held_in_memory() {
    let Some(server) = Server::start(&["--no-auth", "--workspace-size", "200m"]) else { return };
    let zeros = |count: usize| {
        let chunks = (0..count >> 20).map(|_| vec![0u8; 1 << 20]).chain([vec![0u8; count & 0xfffff]]);
        let content = futures_util::stream::iter(chunks.map(Ok::<_, std::io::Error>).collect::<Vec<_>>());
        Form::new().part("file", Part::stream(Body::wrap_stream(content)).file_name("zeros.bin"))
    };
    let response = upload(&server, "a").multipart(zeros((128 << 20) + 1)).send().await.unwrap();
    assert_refused(&response, 413, "RequestTooLarge");
    assert!(names(&server, "a").await.is_empty());
    let (status, body) = answer(upload(&server, "a").multipart(zeros(128 << 20))).await;
    assert_eq!((status, &body["value"][0]["properties"]["size"]), (StatusCode::OK, &json!(128 << 20)));
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 100 << 10, "{peak} kB");
}

#[tokio::test]
async fn a_client_that_goes_away_while_it_uploads_leaves_nothing() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "import os").await;
    let start = raw("half.bin", &"x".repeat(300_000)).into_bytes();
    let half = futures_util::StreamExt::chain(
        futures_util::stream::iter([Ok::<_, std::io::Error>(start[..200_000].to_vec())]),
        futures_util::stream::pending(),
    );
    let sent = upload(&server, "a")
        .header("content-type", "multipart/form-data; boundary=b")
        .timeout(Duration::from_secs(2))
        .body(Body::wrap_stream(half))
        .send()
        .await;
    assert!(sent.is_err());
    crate::support::eventually("nothing is left of it", async || {
        server.execute("a", "os.listdir('/mnt/data')").await["result"] == "[]"
    })
    .await;
}

#[tokio::test]
async fn no_spelling_of_an_identifier_reaches_anothers_files() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("secret", "open('mine', 'w').write('1')").await;
    for other in [
        "Secret",
        "secret%00",
        "secret%20",
        "./secret",
        "x/../secret",
        "secret/",
        "%2e/secret",
        "ѕecret",
        "secret%2500",
    ] {
        let response = server.get(&format!("/files?identifier={other}&api-version={OLD}")).send().await.unwrap();
        if response.status() == StatusCode::OK {
            let body: Value = response.json().await.unwrap();
            assert_eq!(body["value"], json!([]), "{other}");
        } else {
            assert_refused(&response, 400, "SessionRequestValidationFailed");
        }
    }
    // The same one, in another encoding.
    assert_eq!(names(&server, "s%65cret").await, ["mine"]);
}

#[tokio::test]
async fn a_full_work_directory_is_told_and_nothing_of_the_file_is_there() {
    let Some(server) = Server::start(&["--no-auth", "--workspace-size", "1m"]) else { return };
    let response = upload(&server, "a").multipart(file("big.bin", &"x".repeat(2 << 20))).send().await.unwrap();
    assert_refused(&response, 507, "InsufficientStorage");
    assert_eq!(server.execute("a", "import os; os.listdir('/mnt/data')").await["result"], "[]");
}

#[tokio::test]
async fn a_file_that_its_owner_may_not_read_is_no_failure_of_the_server() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "import os; open('shut', 'w').write('1'); os.chmod('shut', 0)").await;
    let response = server.get(&format!("/files/content/shut?identifier=a&api-version={OLD}")).send().await.unwrap();
    assert_refused(&response, 403, "Forbidden");
}
