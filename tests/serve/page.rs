//! The live page, as its bytes are. What a browser makes of them is in `tests/clients`.

use reqwest::header::{COOKIE, HeaderMap, LOCATION, ORIGIN, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use serde_json::json;

use crate::support::{NEWEST, Server, eventually};

const EVIL: &str = "</pre></article><script>alert(1)</script><img src=x onerror=alert(2)>";

/// A browser of the plainest kind: it keeps one cookie and follows nothing.
struct Browser<'a> {
    server: &'a Server,
    client: Client,
    cookie: String,
}

impl<'a> Browser<'a> {
    fn new(server: &'a Server) -> Self {
        let client = Client::builder().redirect(Policy::none()).build().unwrap();
        Self { server, client, cookie: String::new() }
    }

    async fn get(&self, path: &str) -> Response {
        let request = self.client.get(format!("{}{path}", self.server.address));
        request.header(COOKIE, &self.cookie).send().await.unwrap()
    }

    async fn text(&self, path: &str) -> String {
        let response = self.get(path).await;
        assert_eq!(response.status(), 200, "{path}");
        response.text().await.unwrap()
    }

    async fn post(&self, path: &str, fields: &[(&str, &str)], origin: Option<&str>) -> Response {
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut request = self
            .client
            .post(format!("{}{path}", self.server.address))
            .header(COOKIE, &self.cookie)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(fields.join("&"));
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        request.send().await.unwrap()
    }

    async fn log_in(&mut self) {
        let token = self.server.token.clone().unwrap();
        let response = self.post("/login", &[("token", &token)], Some(&self.server.address)).await;
        assert_eq!((response.status().as_u16(), location(response.headers())), (303, "/"));
        let cookie = response.headers()[SET_COOKIE].to_str().unwrap();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict; Path=/") && !cookie.contains(&token), "{cookie}");
        cookie.split(';').next().unwrap().clone_into(&mut self.cookie);
    }

    /// The path of the first session's page, and the secret of the forms.
    async fn first(&self) -> (String, String) {
        let list = self.text("/").await;
        let after = |what: &str| list.split(what).nth(1).unwrap().split('"').next().unwrap().to_owned();
        (after(r#"class="name" href=""#), after(r#"name="form" value=""#))
    }
}

fn location(headers: &HeaderMap) -> &str {
    headers[LOCATION].to_str().unwrap()
}

#[tokio::test]
async fn the_page_asks_for_a_token_and_its_cookie_is_good_for_the_page_alone() {
    let Some(server) = Server::start(&[]) else { return };
    server.execute("mine", "1").await;
    let mut browser = Browser::new(&server);
    for path in ["/", "/live/sessions", "/live/0", "/live/0/cells"] {
        let response = browser.get(path).await;
        assert_eq!((response.status().as_u16(), location(response.headers())), (303, "/login"), "{path}");
    }
    for path in ["/live/0/interrupt", "/live/0/stop", "/logout"] {
        assert_eq!(browser.post(path, &[("form", "x")], None).await.status(), 401, "{path}");
    }
    let response = browser.post("/login", &[("token", "not-this-one-0123456789")], None).await;
    assert_eq!(response.status(), 401);
    assert!(!response.headers().contains_key(SET_COOKIE));
    assert!(response.text().await.unwrap().contains("This is no token of this server."));

    browser.log_in().await;
    assert!(browser.text("/").await.contains(">mine</a>"));
    let api = browser.get("/listSessions?api-version=2025-10-02-preview").await;
    assert_eq!(api.status(), 401, "a cookie is no token");

    let (_, form) = browser.first().await;
    assert_eq!(browser.post("/logout", &[("form", &form)], None).await.status(), 303);
    assert_eq!(browser.get("/").await.status(), 303, "the cookie is forgotten here, not only there");
}

#[tokio::test]
async fn nothing_of_the_container_is_markup_and_nothing_is_loaded() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let identifier = "%3Cscript%3Ealert(0)%3C%2Fscript%3E";
    let evil = serde_json::to_string(EVIL).unwrap();
    for code in [
        format!("print({evil})"),
        format!("import sys; sys.stderr.write({evil})"),
        format!("raise ValueError({evil})"),
        format!("from IPython.display import HTML, display\ndisplay(HTML({evil}))\n{evil}"),
        format!("display({{'image/png': {evil}, 'text/plain': {evil}}}, raw=True)"),
    ] {
        server.execute(identifier, &code).await;
    }
    server.executions(identifier, NEWEST, &json!({ "shellCommand": format!("echo '{EVIL}'") })).send().await.unwrap();
    let browser = Browser::new(&server);
    let (path, _) = browser.first().await;
    for path in ["/", &path, "/live/sessions", &format!("{path}/cells?after=0")] {
        let response = browser.get(path).await;
        let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
        for part in
            ["default-src 'none'", "script-src 'sha256-", "img-src data:", "frame-ancestors 'none'", "base-uri 'none'"]
        {
            assert!(policy.contains(part), "{policy}");
        }
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
        assert_eq!(response.headers()["cache-control"], "no-store");
        let html = response.text().await.unwrap();
        assert!(!html.contains("<script>alert") && !html.contains("<img src=x"), "{html}");
        let scripts = html.matches("<script").count();
        assert!(scripts == usize::from(html.starts_with("<!DOCTYPE html>")), "{scripts} scripts in {path}");
        let loads = ["src=\"http", "src=\"/", "@import", "url(", "<link rel=\"stylesheet"];
        assert!(loads.iter().all(|load| !html.contains(load)), "{html}");
    }
    let cells = browser.text(&path).await;
    assert!(cells.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "it is shown: {cells}");
    assert!(cells.contains(r#"<iframe sandbox="" srcdoc=""#), "{cells}");
}

#[tokio::test]
async fn buttons_work_for_the_page_and_for_nobody_else() {
    let Some(server) = Server::start(&[]) else { return };
    server.execute("mine", "import time; x = 1").await;
    let mut browser = Browser::new(&server);
    browser.log_in().await;
    let (path, form) = browser.first().await;
    let (interrupt, stop) = (format!("{path}/interrupt"), format!("{path}/stop"));
    for wrong in [&[("form", "")][..], &[("form", "0123456789abcdef")]] {
        assert_eq!(browser.post(&stop, wrong, None).await.status(), 403);
    }
    assert!(browser.post(&stop, &[], None).await.status().is_client_error());
    let right = [("form", form.as_str())];
    for origin in ["http://evil.example", "null"] {
        assert_eq!(browser.post(&stop, &right, Some(origin)).await.status(), 403, "{origin}");
    }
    assert_eq!(browser.get(&stop).await.status(), 405);

    let sleeper = server.code_execute("mine", &json!({ "properties": { "code": "time.sleep(600)" } }));
    let sleeper = tokio::spawn(async move { sleeper.send().await.unwrap().text().await.unwrap() });
    eventually("it runs", async || browser.text(&path).await.contains("class=\"pill running\">running ")).await;
    let response = browser.post(&interrupt, &right, Some(&server.address)).await;
    assert_eq!((response.status().as_u16(), location(response.headers())), (303, path.as_str()));
    assert!(sleeper.await.unwrap().contains("KeyboardInterrupt"));
    assert_eq!(server.execute("mine", "x").await["result"], 1);

    // A script runs beside the kernel; the button means it, too.
    let script = server.executions("mine", NEWEST, &json!({ "shellCommand": "sleep 600" }));
    let script = tokio::spawn(async move { script.send().await.unwrap().text().await.unwrap() });
    eventually("it runs", async || {
        browser.text(&path).await.contains("[*]") || browser.text(&path).await.contains("waiting")
    })
    .await;
    browser.post(&interrupt, &right, None).await;
    assert!(script.await.unwrap().contains("\"130\""));

    let response = browser.post(&stop, &[right[0], ("from", "list")], Some(&server.address)).await;
    assert_eq!((response.status().as_u16(), location(response.headers())), (303, "/"));
    assert!(browser.text("/").await.contains("None yet"));
    assert_eq!(browser.get(&path).await.status(), 404);
    assert_eq!(server.containers().len(), 0);
}

#[tokio::test]
async fn cells_appear_while_they_run_and_only_what_changed_is_sent_again() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("mine", "print('first cell')").await;
    let body = json!({ "code": "import pathlib, time\nprint('begun', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(.01)\nprint('over')",
        "executionType": "Asynchronous" });
    server.executions("mine", NEWEST, &body).send().await.unwrap();
    let browser = Browser::new(&server);
    let (path, _) = browser.first().await;
    eventually("its output shows", async || browser.text(&path).await.contains(">begun\n")).await;
    let page = browser.text(&path).await;
    assert!(page.contains("first cell") && page.contains("class=\"pill running\">running</span>"), "{page}");
    let revision = page.split("data-revision=\"").nth(1).unwrap().split('"').next().unwrap();
    let changes = format!("{path}/cells?after={revision}");
    assert!(!browser.text(&changes).await.contains("<article"), "nothing has changed");
    server.executions("mine", NEWEST, &json!({ "shellCommand": "touch go" })).send().await.unwrap();
    eventually("its end shows", async || browser.text(&changes).await.contains("begun\nover\n")).await;
    assert!(!browser.text(&changes).await.contains("first cell"));
}

#[tokio::test]
async fn looking_does_not_keep_a_session_alive() {
    let Some(server) = Server::start(&["--no-auth", "--idle-timeout", "2s"]) else { return };
    server.execute("mine", "1").await;
    let browser = Browser::new(&server);
    let (path, _) = browser.first().await;
    eventually("it ends", async || browser.get(&format!("{path}/cells")).await.status() == 404).await;
}
