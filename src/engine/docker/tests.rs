//! What the engine's answers become, on a fake engine.

use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::engine::fake::{self, Answers, Seen, VERSION};

async fn docker(answers: Answers) -> (TempDir, Docker, Seen) {
    let directory = TempDir::new().unwrap();
    let socket = directory.path().join("engine.sock");
    let seen = fake::serve(&socket, answers);
    let docker = Docker::connect_to(&format!("unix://{}", socket.display())).await.unwrap();
    (directory, docker, seen)
}

fn spec() -> ContainerSpec {
    ContainerSpec::new("cellblock-1000-desk", "cellblock:data")
}

fn id() -> ContainerId {
    ContainerId("0123456789abcdef".to_owned())
}

#[tokio::test]
async fn a_missing_image_is_told_with_the_command_that_builds_it() {
    let answers: Answers =
        &[VERSION, ("POST /containers/create", 404, r#"{"message":"No such image: cellblock:data"}"#)];
    let (_directory, docker, _) = docker(answers).await;
    let error = docker.create(&spec()).await.unwrap_err();
    assert!(error.is_image_missing());
    assert_eq!(error.to_string(), "there is no image cellblock:data");
    assert!(error.hint().unwrap().starts_with("`cellblock image build`"));
}

#[tokio::test]
async fn a_taken_name_is_told_with_the_command_that_frees_it() {
    let conflict = r#"{"message":"Conflict. The container name \"/cellblock-1000-desk\" is already in use"}"#;
    let answers: Answers = Box::leak(Box::new([VERSION, ("POST /containers/create", 409, conflict)]));
    let (_directory, docker, _) = docker(answers).await;
    let error = docker.create(&spec()).await.unwrap_err();
    assert!(error.is_name_taken());
    assert_eq!(error.to_string(), "there is a container cellblock-1000-desk already");
    assert_eq!(error.hint(), Some("`cellblock session stop desk` ends it, or choose another name"));
}

#[tokio::test]
async fn a_directory_that_the_engine_does_not_find_is_told_by_its_use() {
    let here = TempDir::new().unwrap();
    let path = here.path().display();
    for words in [
        format!("invalid mount config for type \\\"bind\\\": bind source path does not exist: {path}"),
        format!("statfs {path}: no such file or directory"),
        format!("Mounts denied: The path {path} is not shared from the host and is not known to Docker."),
    ] {
        let answer = Box::leak(format!(r#"{{"message":"{words}"}}"#).into_boxed_str());
        let answers: Answers =
            Box::leak(Box::new([VERSION, ("GET /info", 200, "{}"), ("POST /containers/create", 400, &*answer)]));
        let (_directory, docker, _) = docker(answers).await;
        let (mut mounted, mut shared) = (spec(), spec());
        mounted.host_directory = Some(here.path().to_owned());
        shared.workspace = crate::Workspace::Host(here.path().to_owned());
        assert_eq!(docker.create(&mounted).await.unwrap_err().kind(), Kind::Mount, "{words}");
        let error = docker.create(&shared).await.unwrap_err();
        assert!(error.kind() == Kind::Usage && error.hint().unwrap().contains("--bind-dir"), "{error:?}");
    }
}

#[tokio::test]
async fn a_refusal_keeps_the_engines_words() {
    let answers: Answers = &[
        VERSION,
        ("POST /containers/create", 400, r#"{"message":"Range of CPUs is from 0.01 to 2.00"}"#),
        ("POST /containers/0123456789abcdef/start", 500, r#"{"message":"no space left on device"}"#),
    ];
    let (_directory, docker, _) = docker(answers).await;
    let error = docker.create(&spec()).await.unwrap_err();
    assert!(error.is_usage());
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("Range of CPUs"));
    let error = docker.start(&id()).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot start container 0123456789ab");
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("no space left"));
}

#[tokio::test]
async fn an_image_without_the_bridge_is_told_with_the_command_that_builds_one_with_it() {
    for words in [
        r#"{"message":"runc create failed: exec: \"init\": executable file not found in $PATH"}"#,
        r#"{"message":"exec: \"/opt/cellblock/bin/bridge\": stat /opt/cellblock/bin/bridge: no such file or directory"}"#,
        r#"{"message":"crun: executable file `init` not found in $PATH: No such file or directory"}"#,
    ] {
        let answers: Answers = Box::leak(Box::new([VERSION, ("POST /containers/0123456789abcdef/start", 400, words)]));
        let (_directory, docker, _) = docker(answers).await;
        let error = docker.start(&id()).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot start container 0123456789ab");
        assert!(error.hint().unwrap().contains("`cellblock image build`"), "{words}");
    }
}

#[tokio::test]
async fn an_engine_that_is_lost_is_unreachable_whatever_was_attempted() {
    let (directory, docker, _) = docker(&[VERSION]).await;
    std::fs::remove_file(directory.path().join("engine.sock")).unwrap();
    assert!(docker.create(&spec()).await.unwrap_err().is_engine_unreachable());
    assert!(docker.kill(&id()).await.unwrap_err().is_engine_unreachable());
    assert!(docker.list(&[]).await.unwrap_err().is_engine_unreachable());
    assert!(docker.wait(&id()).await.unwrap_err().is_engine_unreachable());
    assert!(docker.exec(&id(), &["true"]).await.unwrap_err().is_engine_unreachable());
}

#[tokio::test]
async fn no_request_carries_a_version() {
    let (_directory, docker, seen) = docker(&[VERSION, ("GET /containers/json", 200, "[]")]).await;
    assert!(docker.list(&[]).await.unwrap().is_empty());
    assert!(docker.kill(&id()).await.is_ok(), "a container that is gone is a success");
    assert!(docker.remove(&id()).await.is_ok());
    assert_eq!(docker.pid(&id()).await.unwrap(), None);
    let requests = seen.requests();
    assert_eq!(requests.len(), 5);
    assert!(requests.iter().all(|request| !request.contains("/v1.")), "{requests:?}");
}

#[tokio::test]
async fn states_that_only_podman_has_do_not_spoil_a_list() {
    let list = r#"[{"Id":"1","Names":["/a"],"Image":"i","State":"stopped","Created":7,"Labels":{"k":"v"}},
                   {"Id":"2","Names":["/b"],"Image":"i","State":"running","Created":8,"Labels":null}]"#;
    let answers: Answers = Box::leak(Box::new([VERSION, ("GET /containers/json", 200, list)]));
    let (_directory, docker, seen) = docker(answers).await;
    let listed = docker.list(&[("cellblock.uid", "1000")]).await.unwrap();
    let states: Vec<_> = listed.iter().map(|one| (one.name.as_str(), one.state.as_str())).collect();
    assert_eq!(states, [("a", "stopped"), ("b", "running")]);
    assert!(seen.requests().last().unwrap().contains("all=true"));
}

#[tokio::test]
async fn an_answer_that_the_clients_model_refuses_is_still_read() {
    let inspected = r#"{"Id":"1","State":{"Status":"stopped","Pid":0,"ExitCode":3},"Config":{"Entrypoint":"text"}}"#;
    let answers: Answers = Box::leak(Box::new([
        VERSION,
        ("GET /containers/0123456789abcdef/json", 200, inspected),
        ("POST /containers/0123456789abcdef/wait", 500, r#"{"message":"cannot wait"}"#),
    ]));
    let (_directory, docker, _) = docker(answers).await;
    assert_eq!(docker.wait(&id()).await.unwrap(), Exit { code: Some(3) });
}

#[tokio::test]
async fn a_container_that_is_removed_already_is_an_exit() {
    let died = r#"{"Type":"container","Action":"die","Actor":{"ID":"0123","Attributes":{"exitCode":"11"}},"time":1}"#;
    let answers: Answers = Box::leak(Box::new([VERSION, ("GET /events", 200, died)]));
    let (_directory, remembering, _) = docker(answers).await;
    assert_eq!(remembering.wait(&id()).await.unwrap(), Exit { code: Some(11) });
    let (_directory, forgetful, _) = docker(&[VERSION]).await;
    assert_eq!(forgetful.wait(&id()).await.unwrap(), Exit { code: None });
}

#[tokio::test]
async fn the_clients_time_limit_does_not_end_a_wait() {
    let answers: Answers = &[
        VERSION,
        ("POST /containers/0123456789abcdef/wait", 0, ""),
        ("GET /containers/0123456789abcdef/json", 200, r#"{"Id":"0123456789abcdef","State":{"Status":"running"}}"#),
    ];
    let (_directory, mut docker, seen) = docker(answers).await;
    docker.client.set_timeout(Duration::from_secs(1));
    assert!(tokio::time::timeout(Duration::from_millis(1500), docker.wait(&id())).await.is_err());
    let waits = seen.requests().iter().filter(|request| request.starts_with("POST")).count();
    assert_eq!(waits, 2);
}

#[tokio::test]
async fn an_engine_that_is_too_old_or_none_is_refused() {
    let refusal = async |answers| {
        let directory = TempDir::new().unwrap();
        let socket = directory.path().join("engine.sock");
        fake::serve(&socket, answers);
        let error = Docker::connect_to(&format!("unix://{}", socket.display())).await.unwrap_err();
        assert!(error.is_engine_unreachable());
        std::error::Error::source(&error).unwrap().to_string()
    };
    let old = refusal(&[("GET /version", 200, r#"{"ApiVersion":"1.40"}"#)]).await;
    assert_eq!(old, "it speaks API 1.40, and 1.41 is needed");
    refusal(&[("GET /version", 200, "<html>")]).await;
    refusal(&[("GET /version", 200, r#"{"ApiVersion":"none"}"#)]).await;
    assert!(Docker::connect_to("ssh://host").await.unwrap_err().is_usage());
}

#[tokio::test]
async fn a_paused_container_is_not_gone() {
    let paused = r#"{"message":"Container 0123 is paused, unpause the container before exec"}"#;
    let stopped = r#"{"message":"Container 4567 is not running"}"#;
    let answers: Answers = Box::leak(Box::new([
        VERSION,
        ("POST /containers/0123456789abcdef/exec", 409, paused),
        ("POST /containers/4567/exec", 409, stopped),
    ]));
    let (_directory, docker, _) = docker(answers).await;
    assert!(!docker.exec(&id(), &["true"]).await.unwrap_err().is_session_gone());
    assert!(docker.exec(&ContainerId("4567".to_owned()), &["true"]).await.unwrap_err().is_session_gone());
}

#[tokio::test]
async fn a_container_that_lost_its_limits_is_removed_again() {
    let answers: Answers = &[
        VERSION,
        ("GET /info", 200, r#"{"MemoryLimit":true,"SecurityOptions":["name=seccomp,profile=default"]}"#),
        ("POST /containers/create", 201, r#"{"Id":"0123456789abcdef","Warnings":["Limitation discarded."]}"#),
        ("GET /containers/0123456789abcdef/json", 200, r#"{"Id":"0123456789abcdef","HostConfig":{"Memory":0}}"#),
        ("DELETE /containers/0123456789abcdef", 204, ""),
    ];
    let (_directory, docker, seen) = docker(answers).await;
    let error = docker.create(&spec()).await.unwrap_err();
    assert!(error.to_string().contains("does not hold the memory limit"), "{error}");
    assert!(seen.requests().iter().any(|request| request.starts_with("DELETE")));
}

#[tokio::test]
async fn what_would_open_the_container_is_refused_before_the_engine_is_asked() {
    let (_directory, docker, seen) = docker(&[VERSION]).await;
    let changes: &[&dyn Fn(&mut ContainerSpec)] = &[
        &|spec| spec.network = crate::engine::Network::Named("host".to_owned()),
        &|spec| spec.network = crate::engine::Network::Named("container:other".to_owned()),
        &|spec| spec.host_directory = Some("relative".into()),
        &|spec| spec.env.push(("A=B".to_owned(), String::new())),
        &|spec| spec.memory = 0,
    ];
    for change in changes {
        let mut spec = spec();
        change(&mut spec);
        assert!(docker.create(&spec).await.unwrap_err().is_usage(), "{spec:?}");
    }
    assert_eq!(seen.requests(), ["GET /version"]);
}

#[tokio::test]
async fn an_engine_is_known_by_its_address_and_its_id() {
    let (_directory, engine, _) = docker(&[VERSION, ("GET /info", 200, r#"{"ID":"AD3S:HKUH"}"#)]).await;
    assert_eq!(engine.identity().await, Some(format!("{} AD3S:HKUH", engine.address())));
    let podman = r#"{"Version":"4.3.1","ApiVersion":"1.41","Components":[{"Name":"Podman Engine"}]}"#;
    let answers: Answers =
        Box::leak(Box::new([("GET /version", 200, podman), ("GET /info", 200, r#"{"ID":"another each time"}"#)]));
    let (_directory, engine, _) = docker(answers).await;
    assert_eq!(engine.identity().await, None);
}
