//! Requests that are refused: each with its status, its code and the header that repeats it.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{NEW, OLD, Server, assert_refused};

const INVALID: &str = "SessionRequestValidationFailed";

#[tokio::test]
async fn what_cannot_be_meant_is_refused_with_azures_codes() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let code = json!({"code": "1"});
    let long = format!("/code/execute?api-version={OLD}&identifier={}", "x".repeat(257));
    let cases: &[(Method, &str, Option<&Value>, u16, &str)] = &[
        (Method::POST, "/code/execute?identifier=a", Some(&code), 400, INVALID),
        (Method::POST, "/code/execute?api-version=2024-02-02-preview", Some(&code), 400, INVALID),
        (Method::POST, "/code/execute?identifier=&api-version=2024-02-02-preview", Some(&code), 400, INVALID),
        (
            Method::POST,
            "/code/execute?identifier=a&identifier=b&api-version=2024-02-02-preview",
            Some(&code),
            400,
            INVALID,
        ),
        (Method::POST, "/code/execute?identifier=a&api-version=yesterday", Some(&code), 400, INVALID),
        (Method::POST, "/code/execute?identifier=%ff&api-version=2024-02-02-preview", Some(&code), 400, INVALID),
        (Method::POST, &long, Some(&code), 400, INVALID),
        (Method::GET, "/code/execute?identifier=a&api-version=2024-02-02-preview", None, 400, INVALID),
        (
            Method::POST,
            "/code/execute?identifier=a&api-version=2025-02-02-preview",
            Some(&code),
            400,
            "SessionRequestNotSupported",
        ),
        (
            Method::POST,
            "/executions?identifier=a&api-version=2024-02-02-preview",
            Some(&code),
            400,
            "SessionRequestNotSupported",
        ),
        (Method::GET, "/session?identifier=a&api-version=2024-10-02-preview", None, 400, "SessionRequestNotSupported"),
        (Method::GET, "/listSessions?api-version=2024-10-02-preview", None, 400, "SessionRequestNotSupported"),
        (Method::GET, "/metadata?api-version=2024-02-02-preview", None, 400, "SessionRequestNotSupported"),
        (Method::GET, "/listSessions?api-version=2025-02-02-preview&skip=x", None, 400, INVALID),
        (Method::POST, "/code/execute?identifier=a&api-version=2024-02-02-preview", None, 400, INVALID),
        (
            Method::POST,
            "/code/execute?identifier=a&api-version=2024-02-02-preview",
            Some(&json!({})),
            400,
            "SessionPropertiesMissing",
        ),
        (
            Method::POST,
            "/code/execute?identifier=a&api-version=2024-02-02-preview",
            Some(&json!({"properties": {}})),
            400,
            "SessionPropertiesMissing",
        ),
        (
            Method::POST,
            "/code/execute?identifier=a&api-version=2024-02-02-preview",
            Some(&json!({"shellCommand": "ls"})),
            400,
            "SessionPropertiesMissing",
        ),
        (Method::POST, "/executions?identifier=a&api-version=2025-02-02-preview", Some(&json!([1])), 400, INVALID),
        (
            Method::POST,
            "/executions?identifier=a&api-version=2024-10-02-preview",
            Some(&json!({"shellCommand": "ls"})),
            400,
            "SessionRequestNotSupported",
        ),
        (
            Method::GET,
            "/session?identifier=nobody&api-version=2025-02-02-preview",
            None,
            404,
            "SessionWithIdentifierNotFound",
        ),
        (
            Method::DELETE,
            "/session?identifier=nobody&api-version=2025-02-02-preview",
            None,
            404,
            "SessionWithIdentifierNotFound",
        ),
        (
            Method::POST,
            "/.management/stopSession?identifier=nobody&api-version=2025-02-02-preview",
            None,
            404,
            "SessionWithIdentifierNotFound",
        ),
        (
            Method::GET,
            "/executions/none?identifier=nobody&api-version=2025-02-02-preview",
            None,
            404,
            "SessionWithIdentifierNotFound",
        ),
        (Method::GET, "/executions/%ff?identifier=a&api-version=2025-02-02-preview", None, 400, INVALID),
        (Method::GET, "/files/%ff?identifier=a&api-version=2025-02-02-preview", None, 400, INVALID),
        (Method::GET, "/v1/sessions/%ff", None, 400, INVALID),
        (Method::PUT, "/v1/sessions", None, 405, "MethodNotAllowed"),
        (Method::POST, "/health", None, 405, "MethodNotAllowed"),
        (Method::GET, "/nothing", None, 404, "NotFound"),
        (Method::GET, "/v1/nothing", None, 404, "NotFound"),
        (Method::GET, "/msi/token", None, 404, "NotFound"),
    ];
    for (method, path, body, status, code) in cases {
        let mut request = server.request(method.clone(), path);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), response.headers().get("x-ms-error-code").map(|code| code.to_str().unwrap())),
            (*status, Some(*code)),
            "{method} {path} {body:?}"
        );
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["error"]["code"], *code);
        assert!(body["error"]["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    // None of them has made a session.
    let (_, list) = crate::support::answer(server.get(&format!("/listSessions?api-version={NEW}"))).await;
    assert_eq!(list, json!({"sessions": []}));
}

#[tokio::test]
async fn a_body_past_its_limit_is_refused() {
    let Some(server) = Server::start(&["--no-auth", "--max-body", "1k"]) else { return };
    let response = server.code_execute("a", &json!({"code": "x".repeat(2000)})).send().await.unwrap();
    assert_refused(&response, 413, "RequestTooLarge");
}

#[tokio::test]
async fn an_execution_id_that_is_none_or_is_taken_is_refused() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let with = |id: &str| server.executions("a", NEW, &json!({"code": "1"})).header("operation-id", id).send();
    assert_refused(&with("a/b").await.unwrap(), 400, INVALID);
    assert_eq!(with("one").await.unwrap().status(), 200);
    assert_refused(&with("one").await.unwrap(), 409, "Conflict");
    let response = server.get(&format!("/executions/two?identifier=a&api-version={NEW}")).send().await.unwrap();
    assert_refused(&response, 404, "ExecutionNotFound");
}
