use std::fs;

use tempfile::TempDir;

use super::*;
use crate::engine::fake;

fn nowhere() -> (TempDir, Surroundings) {
    let directory = TempDir::new().unwrap();
    let socket = |name| directory.path().join(name);
    let surroundings = Surroundings {
        docker_config: Some(socket("docker")),
        sockets: vec![socket("first.sock"), socket("second.sock")],
        ..Surroundings::default()
    };
    (directory, surroundings)
}

fn address(directory: &TempDir, name: &str) -> String {
    format!("unix://{}", directory.path().join(name).display())
}

fn add_context(directory: &TempDir, name: &str, address: &str) {
    let digest: String = Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
    let meta = directory.path().join("docker/contexts/meta").join(digest);
    fs::create_dir_all(&meta).unwrap();
    let text = format!(r#"{{"Name":"{name}","Metadata":{{}},"Endpoints":{{"docker":{{"Host":"{address}"}}}}}}"#);
    fs::write(meta.join("meta.json"), text).unwrap();
}

#[tokio::test]
async fn when_nothing_answers_all_that_was_tried_is_listed() {
    let (directory, surroundings) = nowhere();
    // A file that nobody listens on, as a killed engine leaves it.
    drop(std::os::unix::net::UnixListener::bind(directory.path().join("second.sock")).unwrap());
    let error = surroundings.connect().await.unwrap_err();
    assert!(error.is_engine_unreachable());
    let path = directory.path().display();
    assert_eq!(
        error.to_string(),
        format!(
            "no container engine answers; tried\n  {path}/first.sock: not there\n  {path}/second.sock: refused: nobody listens"
        )
    );
    assert!(error.hint().unwrap().contains("systemctl start docker"));
    fs::remove_file(directory.path().join("second.sock")).unwrap();
    let error = surroundings.connect().await.unwrap_err();
    assert!(error.hint().unwrap().contains("apt-get install docker.io"));
}

#[tokio::test]
async fn the_first_socket_that_answers_is_taken() {
    let (directory, surroundings) = nowhere();
    fake::serve(&directory.path().join("first.sock"), &[("GET", 500, "this is not an engine")]);
    let second = fake::serve(&directory.path().join("second.sock"), &[fake::VERSION]);
    let docker = surroundings.connect().await.unwrap();
    assert_eq!(docker.address(), address(&directory, "second.sock"));
    assert_eq!(second.requests(), ["GET /version"]);
}

#[tokio::test]
async fn an_explicit_choice_is_not_fallen_through() {
    let (directory, mut surroundings) = nowhere();
    fake::serve(&directory.path().join("first.sock"), &[fake::VERSION]);
    let gone = address(&directory, "gone.sock");
    surroundings.docker_host = Some(gone.clone());
    let error = surroundings.connect().await.unwrap_err();
    assert!(error.is_engine_unreachable());
    assert_eq!(error.to_string(), format!("the container engine does not answer (DOCKER_HOST={gone})"));

    surroundings.docker_host = None;
    add_context(&directory, "far", &gone);
    surroundings.docker_context = Some("far".to_owned());
    let error = surroundings.connect().await.unwrap_err();
    assert_eq!(error.to_string(), format!("the container engine does not answer (DOCKER_CONTEXT=far, {gone})"));
}

#[tokio::test]
async fn the_order_of_explicit_choices() {
    let (directory, mut surroundings) = nowhere();
    let choice = |surroundings: &Surroundings| surroundings.choice().unwrap().map(|choice| choice.address);
    assert_eq!(choice(&surroundings), None);

    fs::create_dir_all(directory.path().join("docker")).unwrap();
    let config = directory.path().join("docker/config.json");
    fs::write(&config, r#"{"auths":{},"currentContext":"desk"}"#).unwrap();
    add_context(&directory, "desk", "unix:///desk.sock");
    add_context(&directory, "far", "tcp://far:2375");
    assert_eq!(choice(&surroundings).as_deref(), Some("unix:///desk.sock"));
    surroundings.container_host = Some("unix:///podman.sock".to_owned());
    assert_eq!(choice(&surroundings).as_deref(), Some("unix:///podman.sock"));
    surroundings.docker_context = Some("far".to_owned());
    assert_eq!(choice(&surroundings).as_deref(), Some("tcp://far:2375"));
    surroundings.docker_context = Some("default".to_owned());
    assert_eq!(choice(&surroundings), None);
    surroundings.docker_host = Some("unix:///host.sock".to_owned());
    assert_eq!(choice(&surroundings).as_deref(), Some("unix:///host.sock"));
}

#[tokio::test]
async fn a_choice_that_cannot_be_reached_is_never_reached_in_another_way() {
    let (directory, mut surroundings) = nowhere();
    surroundings.docker_host = Some("ssh://host".to_owned());
    let error = surroundings.connect().await.unwrap_err();
    assert!(error.is_engine_unreachable() && error.hint().unwrap().contains("ssh -nNT"));

    surroundings.docker_host = Some("tcp://127.0.0.1:2376".to_owned());
    surroundings.docker_tls_verify = true;
    let error = surroundings.connect().await.unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("TLS"));

    surroundings.docker_host = None;
    surroundings.docker_context = Some("missing".to_owned());
    let error = surroundings.connect().await.unwrap_err();
    assert_eq!(error.to_string(), "cannot read the address that DOCKER_CONTEXT=missing stands for");
    drop(directory);
}
