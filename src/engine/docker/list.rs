//! The containers that carry our labels.

use std::collections::{BTreeMap, HashMap};

use bollard::query_parameters::ListContainersOptionsBuilder;
use serde::Deserialize;

use super::Docker;
use super::failure::failed;
use super::inspect::reread;
use crate::Error;
use crate::engine::{ContainerId, ContainerSummary};
use crate::error::Kind;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    id: String,
    #[serde(default)]
    names: Option<Vec<String>>,
    #[serde(default)]
    image: Option<String>,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    created: Option<i64>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

impl Docker {
    pub(super) async fn list_containers(&self, labels: &[(&str, &str)]) -> Result<Vec<ContainerSummary>, Error> {
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let filters = HashMap::from([("label", labels)]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let listed: Vec<Listed> = reread(self.client.list_containers(Some(options)).await)
            .map_err(|error| failed(Kind::Engine, "cannot list the containers", error))?;
        Ok(listed.into_iter().map(summary).collect())
    }
}

fn summary(listed: Listed) -> ContainerSummary {
    let name = listed.names.unwrap_or_default().into_iter().next().unwrap_or_default();
    ContainerSummary {
        id: ContainerId(listed.id),
        name: name.strip_prefix('/').map(str::to_owned).unwrap_or(name),
        image: listed.image.unwrap_or_default(),
        state: listed.state.unwrap_or_default(),
        created: listed.created.unwrap_or_default(),
        labels: listed.labels.unwrap_or_default(),
    }
}
