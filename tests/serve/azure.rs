//! Executions in the wire format of Azure's dynamic sessions, both families.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{NEW, NEWEST, OLD, Server, answer, assert_refused, eventually};

#[tokio::test]
async fn variables_last_and_an_unknown_identifier_makes_a_session() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    assert_eq!(server.execute("a", "x = 20").await["result"], "");
    assert_eq!(server.execute("a", "x + 1").await["result"], 21);
    let other = server.execute("b", "x").await;
    assert_eq!((&other["status"], &other["result"]), (&json!("Failure"), &Value::Null));
}

#[tokio::test]
async fn the_result_is_what_the_last_expression_says() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    for (code, result) in [
        ("1+1", json!(2)),
        ("1.5", json!(1.5)),
        ("True", json!(true)),
        ("'abc'", json!("abc")),
        (r#""it's \n 'ü'""#, json!("it's \n 'ü'")),
        ("None", json!("")),
        ("y = 3", json!("")),
        ("print('printed')", json!("")),
        ("5;", json!("")),
        ("float('nan')", Value::Null),
        ("'nan'", json!("nan")),
        ("float('inf')", json!("inf")),
        ("[1, 2, 3]", json!("[1, 2, 3]")),
        ("{'a': 1}", json!("{'a': 1}")),
        ("(1, 'b')", json!("(1, 'b')")),
        ("1\n2\n3", json!(3)),
    ] {
        let properties = server.execute("a", code).await;
        assert_eq!(properties["status"], "Success", "{code}: {properties}");
        assert_eq!(properties["result"], result, "{code}");
        assert!(properties["executionTimeInMilliseconds"].is_u64());
    }
    let long = server.execute("a", "list(range(60))").await;
    assert!(long["result"].as_str().unwrap().starts_with("[0,\n 1,\n"), "{long}");
}

#[tokio::test]
async fn an_integer_keeps_all_its_digits() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let text = server.code_execute("a", &json!({"code": "2**100"})).send().await.unwrap().text().await.unwrap();
    assert!(text.contains(r#""result":1267650600228229401496703205376,"#), "{text}");
}

#[tokio::test]
async fn an_image_takes_the_place_of_the_value() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let code = format!(
        "from IPython.display import Image, display\nimport base64\ndisplay(Image(base64.b64decode('{png}')))\n7"
    );
    let properties = server.execute("a", &code).await;
    let image = json!({"type": "image", "format": "png", "base64_data": png});
    assert_eq!(properties["result"], image);
    let value = format!("import base64\nfrom IPython.display import Image\nImage(base64.b64decode('{png}'))");
    assert_eq!(server.execute("a", &value).await["result"], image);
}

#[tokio::test]
async fn an_exception_is_an_answer_with_its_message_and_a_plain_traceback() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n1/0";
    let properties = server.execute("a", code).await;
    assert_eq!((&properties["status"], &properties["result"]), (&json!("Failure"), &Value::Null));
    assert_eq!(properties["stdout"], "out\n");
    let stderr = properties["stderr"].as_str().unwrap();
    assert!(stderr.starts_with("err\ndivision by zero------"), "{stderr}");
    assert!(stderr.ends_with("\n\nZeroDivisionError: division by zero\n"), "{stderr}");
    assert!(!stderr.contains('\u{1b}'), "{stderr}");
    let exit = server.execute("a", "import sys; sys.exit(3)").await;
    assert_eq!(exit["status"], "Failure");
    assert!(exit["stderr"].as_str().unwrap().trim_end().ends_with("SystemExit: 3"), "{exit}");
    assert_eq!(server.execute("a", "input()").await["status"], "Failure");
}

#[tokio::test]
async fn a_time_out_and_a_death_are_answers_and_the_session_lives() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "x = 1").await;
    let body = json!({"properties": {"code": "import time; time.sleep(60)", "timeoutInSeconds": 1}});
    let (status, slow) = answer(server.code_execute("a", &body)).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(slow["properties"]["stderr"], "Request timed out waiting for code execution to complete");
    assert_eq!(slow["properties"]["status"], "Failure");
    assert_eq!(server.execute("a", "x").await["result"], 1);
    let dead = server.execute("a", "import os; os.kill(os.getpid(), 9)").await;
    assert_eq!((&dead["status"], &dead["stderr"]), (&json!("Failure"), &json!("Execution aborted")));
    assert_eq!(server.execute("a", "'alive'").await["result"], "alive");
}

#[tokio::test]
async fn a_kernel_that_takes_too_much_memory_is_an_answer_and_the_session_lives() {
    let Some(server) = Server::start(&["--no-auth", "--memory", "256m"]) else { return };
    let dead = server.execute("a", "b'x' * 2_000_000_000").await;
    assert_eq!((&dead["status"], &dead["stderr"]), (&json!("Failure"), &json!("Execution aborted")));
    assert_eq!(server.execute("a", "'alive'").await["result"], "alive");
}

#[tokio::test]
async fn the_first_family_answers_wrapped_and_tells_its_times_in_headers() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let response = server.code_execute("a", &json!({"code": "print('out'); 1+1"})).send().await.unwrap();
    let headers = response.headers().clone();
    let mut body: Value = response.json().await.unwrap();
    assert!(body["properties"]["executionTimeInMilliseconds"].take().is_u64());
    let properties = json!({"$id": "2", "status": "Success", "stdout": "out\n", "stderr": "", "result": 2,
        "executionTimeInMilliseconds": null});
    assert_eq!(body, json!({"$id": "1", "properties": properties}));
    assert!(headers.contains_key("operation-id") && headers.contains_key("x-ms-session-guid"));
    assert!(headers["x-ms-new-allocation"] == "true" && headers["x-ms-allocation-retries"] == "0");
    let time = |name: &str| headers[name].to_str().unwrap().parse::<f64>().unwrap();
    let [all, made, ran] = ["total-execution-service-time", "allocation-time", "overall-execution-time"]
        .map(|name| time(&format!("x-ms-{name}")));
    assert!(made > 0.0 && ran > 0.0 && (all - made - ran).abs() < 0.01, "{headers:?}");
    assert!(time("x-ms-preparation-time") + time("x-ms-container-execution-duration") <= ran, "{headers:?}");
}

#[tokio::test]
async fn both_families_take_a_body_in_both_shapes() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    for body in [json!({"code": "6*7"}), json!({"properties": {"code": "6*7", "codeInputType": "Inline"}})] {
        assert_eq!(answer(server.code_execute("a", &body)).await.1["properties"]["result"], 42, "{body}");
        assert_eq!(answer(server.executions("a", NEW, &body)).await.1["result"]["executionResult"], 42, "{body}");
    }
}

#[tokio::test]
async fn the_newer_family_answers_flat_with_all_its_keys() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let response =
        server.executions("a", NEW, &json!({"code": "1+1"})).header("operation-id", "mine").send().await.unwrap();
    assert_eq!(response.headers()["operation-id"], "mine");
    let body: Value = response.json().await.unwrap();
    assert_eq!((&body["id"], &body["identifier"], &body["status"]), (&json!("mine"), &json!("a"), &json!("Succeeded")));
    assert_eq!(body["executionType"], "Synchronous");
    let result = &body["result"];
    assert_eq!((&result["stdout"], &result["stderr"], &result["executionResult"]), (&json!(""), &json!(""), &json!(2)));
    let (_, again) = answer(server.get(&format!("/executions/mine?identifier=a&api-version={NEW}"))).await;
    assert_eq!(again, body);
    let (_, failed) = answer(server.executions("a", NEW, &json!({"code": "1/0"}))).await;
    assert_eq!(failed["status"], "Failed");
    for key in ["stdout", "stderr", "executionResult", "executionTimeInMilliseconds"] {
        assert!(failed["result"].as_object().unwrap().contains_key(key), "{key}");
    }
}

#[tokio::test]
async fn an_asynchronous_execution_is_polled_until_it_has_ended() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let code = json!({"code": "import time; time.sleep(1); 'done'", "executionType": "Asynchronous"});
    let response = server.executions("a", NEW, &code).send().await.unwrap();
    let location = response.headers()["operation-location"].to_str().unwrap().to_owned();
    let id = response.headers()["operation-id"].to_str().unwrap().to_owned();
    let body: Value = response.json().await.unwrap();
    assert_eq!((&body["status"], &body["id"]), (&json!("Running"), &json!(id)));
    assert!(body.get("result").is_none());
    assert!(location.starts_with(&format!("/executions/{id}?")), "{location}");
    let mut last = Value::Null;
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    while last["status"] != "Succeeded" {
        assert!(tokio::time::Instant::now() < until, "{last}");
        last = answer(server.get(&location)).await.1;
        assert!(["NotStarted", "Running", "Succeeded"].contains(&last["status"].as_str().unwrap()), "{last}");
    }
    assert_eq!(last["result"]["executionResult"], "done");
}

#[tokio::test]
async fn a_later_look_at_an_execution_gets_its_result_in_the_form_that_was_asked() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let code = json!({
        "code": "print('x' * 100); 'done'", "executionType": "Asynchronous",
        "outputStreamsMaxLength": 10, "returnJupyterFormatExecutionResult": true,
    });
    let response = server.executions("a", NEWEST, &code).send().await.unwrap();
    let location = response.headers()["operation-location"].to_str().unwrap().to_owned();
    eventually("it has ended", || async { answer(server.get(&location)).await.1["status"] == "Succeeded" }).await;
    let (_, synchronous) = {
        let mut code = code.clone();
        code["executionType"] = json!("Synchronous");
        answer(server.executions("a", NEWEST, &code)).await
    };
    let (_, later) = answer(server.get(&location)).await;
    assert_eq!(synchronous["result"]["executionResult"], "'done'", "as Jupyter writes it");
    for part in ["executionResult", "stdout"] {
        assert_eq!(later["result"][part], synchronous["result"][part]);
    }
    assert!(later["result"]["stdout"].as_str().unwrap().len() < 100, "{later}");
}

#[tokio::test]
async fn streams_are_cut_since_the_version_that_cuts_them() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let long = |extra: Value| {
        let mut body = json!({"code": "print('x' * 5000)"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body
    };
    let stdout = |body: Value| body["result"]["stdout"].as_str().unwrap().len();
    assert_eq!(stdout(answer(server.executions("a", NEW, &long(json!({})))).await.1), 5001);
    assert_eq!(stdout(answer(server.executions("a", NEWEST, &long(json!({})))).await.1), 4096 + 3);
    assert_eq!(
        stdout(answer(server.executions("a", NEWEST, &long(json!({"outputStreamsMaxLength": 10})))).await.1),
        13
    );
    assert_eq!(
        stdout(answer(server.executions("a", NEWEST, &long(json!({"outputStreamsMaxLength": 9999})))).await.1),
        5001
    );
}

#[tokio::test]
async fn jupyters_own_form_of_a_value_can_be_asked_for() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    for (code, result) in
        [("float('nan')", json!("nan")), ("'nan'", json!("'nan'")), ("None", Value::Null), ("1", json!("1"))]
    {
        let body = json!({"code": code, "returnJupyterFormatExecutionResult": true});
        let (_, body) = answer(server.executions("a", NEWEST, &body)).await;
        assert_eq!(body["result"]["executionResult"], result, "{code}");
    }
}

#[tokio::test]
async fn an_empty_kernel_is_one_without_libraries_and_keeps_its_variables() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "x = 'kept'").await;
    let code = "import sys; x, sorted({'numpy', 'pandas', 'matplotlib'} & set(sys.modules))";
    let (_, body) = answer(server.executions("a", NEWEST, &json!({"code": code, "useEmptyKernel": true}))).await;
    assert_eq!(body["result"]["executionResult"], "('kept', [])", "{body}");
}

#[tokio::test]
async fn a_shells_status_is_its_exit_code() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let (_, body) =
        answer(server.executions("a", NEW, &json!({"shellCommand": "echo out; echo err >&2; exit 3"}))).await;
    assert_eq!(body["status"], "3", "{body}");
    assert_eq!((&body["result"]["stdout"], &body["result"]["stderr"]), (&json!("out\n"), &json!("err\n")));
    assert!(body["result"].get("executionResult").is_none());
    let program = json!({"execCommandAndArgs": ["cat", "-"], "stdin": "through"});
    let (_, body) = answer(server.executions("a", NEWEST, &program)).await;
    assert_eq!((&body["status"], &body["result"]["stdout"]), (&json!("0"), &json!("through")));
    let (_, body) =
        answer(server.executions("a", NEW, &json!({"shellCommand": "sleep 100", "timeoutInSeconds": 1}))).await;
    assert_eq!(body["status"], "124", "a number also here: clients read it as one");
    assert_eq!(body["result"]["stderr"], "Request timed out waiting for code execution to complete");
    // Files are the session's, and a shell and a cell see the same.
    answer(server.executions("a", NEW, &json!({"shellCommand": "echo 7 > /mnt/data/seven"}))).await;
    assert_eq!(server.execute("a", "int(open('/mnt/data/seven').read())").await["result"], 7);
}

#[tokio::test]
async fn python_execute_has_the_result_at_the_top_too() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let execute = |code: &str| {
        let request = server.request(Method::POST, &format!("/python/execute?identifier=a&api-version={OLD}"));
        answer(request.json(&json!({"properties": {"pythonCode": code}})))
    };
    let (_, body) = execute("6*7").await;
    assert_eq!((&body["result"], &body["stdout"], &body["properties"]["result"]), (&json!(42), &json!(""), &json!(42)));
    let (_, body) = execute("1/0").await;
    assert_eq!((&body["result"], &body["properties"]["result"]), (&json!(""), &Value::Null));
}

#[tokio::test]
async fn the_prefix_of_azure_is_served_as_nothing_before_the_operation_is() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    let pool = "/subscriptions/s/resourceGroups/g/sessionPools/p";
    let path = format!("{pool}/code/execute/?api-version={OLD}&identifier=a");
    let (status, body) = answer(server.request(Method::POST, &path).json(&json!({"code": "x = 5; x"}))).await;
    assert_eq!((status, &body["properties"]["result"]), (StatusCode::OK, &json!(5)));
    assert_eq!(server.execute("a", "x").await["result"], 5);
    let response = server.get(&format!("{pool}/nothing?api-version={OLD}&identifier=a")).send().await.unwrap();
    assert_refused(&response, 400, "SessionRequestValidationFailed");
}

#[tokio::test]
async fn a_client_that_goes_away_interrupts_its_cell_and_the_session_lives() {
    let Some(server) = Server::start(&["--no-auth"]) else { return };
    server.execute("a", "x = 1").await;
    let code = "import time\ntry:\n    open('begun', 'w').close()\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    x = 'interrupted'\n    raise";
    let cell = server.code_execute("a", &json!({"code": code})).header("operation-id", "left");
    let status = async || answer(server.get(&format!("/executions/left?identifier=a&api-version={NEW}"))).await.1;
    let cell = tokio::spawn(cell.send());
    eventually("it is where an interrupt is caught", async || {
        server.get("/v1/sessions/a/files/begun").send().await.unwrap().status() == StatusCode::OK
    })
    .await;
    assert_eq!(status().await["status"], "Running");
    cell.abort();
    assert!(cell.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!(server.execute("a", "x").await["result"], "interrupted");
    eventually("the execution is not counted any more", async || {
        answer(server.get("/v1/sessions/a")).await.1["executing"] == 0
    })
    .await;
    assert_eq!(status().await["status"], "Canceled");
}
