//! From nothing to a first result, and from one kernel to the next.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{CreateContainerOptions, RemoveContainerOptionsBuilder, StartContainerOptions};
use cellblock::{Docker, LinkPolicy};
use serde_json::json;

use crate::jupyter::Jupyter;
use crate::report::{self, Sample};
use crate::support::{Result, call, image, order, session};

const ROUNDS: usize = 15;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum What {
    Start,
    StartRelay,
    Restart,
    Container,
    Kernel,
}

pub(crate) async fn measure() -> Result<()> {
    let client = bollard::Docker::connect_with_host(Docker::connect().await?.address())?;
    let mut jupyter = Jupyter::spawn()?;
    let mut samples = HashMap::from([
        (What::Start, Sample::new("cellblock, socket link: start and 1+1")),
        (What::StartRelay, Sample::new("cellblock, relay link: start and 1+1")),
        (What::Restart, Sample::new("cellblock, socket link: restart and 1+1")),
        (What::Container, Sample::new("bare create and start of /bin/true")),
        (What::Kernel, Sample::new("bare host process of ipykernel to its reply")),
    ]);
    let arms = [What::Start, What::Container, What::StartRelay, What::Kernel];
    for round in 0..=ROUNDS {
        for index in order(round, arms.len()) {
            let times = match arms[index] {
                What::Start | What::Restart => ours(LinkPolicy::Socket).await?,
                What::StartRelay => vec![(What::StartRelay, ours(LinkPolicy::Relay).await?[0].1)],
                What::Container => vec![(What::Container, bare_container(&client).await?)],
                What::Kernel => jupyter
                    .times(&json!({ "do": "bare" }))
                    .await?
                    .into_iter()
                    .map(|time| (What::Kernel, time))
                    .collect(),
            };
            // The first round warms caches up.
            for (what, time) in times.into_iter().filter(|_| round > 0) {
                samples.entry(what).and_modify(|sample| sample.extend([time]));
            }
        }
    }
    let sample = |what| &samples[&what];
    let [start, relay, restart] = [What::Start, What::StartRelay, What::Restart].map(sample);
    let [container, kernel] = [What::Container, What::Kernel].map(sample);
    report::table("start to first result, network none", &[start, relay, restart, container, kernel]);
    let bare = container.median() + kernel.median();
    report::ratio("start and 1+1, p50, socket / bare container + bare kernel", start.median(), bare, 1.3);
    report::ratio("start and 1+1, p50, relay / bare container + bare kernel", relay.median(), bare, 1.3);
    report::ratio("restart and 1+1 / start and 1+1, p50", restart.median(), start.median(), 0.35);
    Ok(())
}

/// A session's start and its kernel's restart, each to its first result.
async fn ours(link: LinkPolicy) -> Result<Vec<(What, Duration)>> {
    let begin = Instant::now();
    let session = session(link).start().await?;
    call(&session).await?;
    let start = begin.elapsed();
    let begin = Instant::now();
    session.restart().await?;
    call(&session).await?;
    let restart = begin.elapsed();
    session.stop().await?;
    Ok(vec![(What::Start, start), (What::Restart, restart)])
}

/// Creating and starting a container that does nothing, through the API that the library uses.
async fn bare_container(client: &bollard::Docker) -> Result<Duration> {
    let body = ContainerCreateBody {
        image: Some(image().to_owned()),
        entrypoint: Some(vec!["/bin/true".to_owned()]),
        host_config: Some(HostConfig { network_mode: Some("none".to_owned()), ..HostConfig::default() }),
        ..ContainerCreateBody::default()
    };
    let begin = Instant::now();
    let id = client.create_container(None::<CreateContainerOptions>, body).await?.id;
    client.start_container(&id, None::<StartContainerOptions>).await?;
    let took = begin.elapsed();
    let options = RemoveContainerOptionsBuilder::new().force(true).build();
    client.remove_container(&id, Some(options)).await?;
    Ok(took)
}
