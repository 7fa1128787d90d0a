//! A host that stalls while outputs pour in: nothing may be lost.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{sleep, timeout};

use crate::controller::{Controller, PATIENCE, WORKLOADS};
use crate::report::{heading, megabytes, note, verdict};
use crate::support::{LINKS, Result};

pub(crate) async fn measure(stall: Duration) -> Result<()> {
    for workload in WORKLOADS.into_iter().filter(|workload| ["prints", "displays"].contains(&workload.name)) {
        for (_, link) in LINKS {
            heading(&format!("{}, the host stalls for {} s, {link} link", workload.title, stall.as_secs()));
            let mut controller = Controller::spawn(workload, link)?;
            controller.under_way().await?;
            controller.signal(Signal::STOP)?;
            sleep(stall).await;
            controller.signal(Signal::CONT)?;
            let report = match timeout(PATIENCE, controller.report()).await? {
                Ok(report) => report,
                Err(error) => {
                    verdict(&format!("the session outlived the stall: {error}"), false);
                    continue;
                }
            };
            let (seconds, growth) = (report.seconds, megabytes(report.growth));
            note(&format!("{seconds:.1} s in all, host memory grew by {growth:.1} MB"));
            verdict("nothing lost in the execution", report.wrong.is_empty());
            verdict("nothing lost in the stream of events", report.lagged == 0);
            report.wrong.iter().for_each(|wrong| note(wrong));
        }
    }
    Ok(())
}
