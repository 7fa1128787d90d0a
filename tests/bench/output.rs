//! Much output: bounded memory on the host, nothing wrong in what is kept, and how fast it comes.

use tokio::time::timeout;

use crate::controller::{Controller, PATIENCE, WORKLOADS};
use crate::report::{heading, megabytes, note, verdict};
use crate::support::{LINKS, Result};

const GROWTH: u64 = 64_000_000;

pub(crate) async fn measure() -> Result<()> {
    for workload in WORKLOADS.into_iter().filter(|workload| ["print", "loop"].contains(&workload.name)) {
        for (_, link) in LINKS {
            heading(&format!("{}, {link} link", workload.title));
            let mut controller = Controller::spawn(workload, link)?;
            controller.under_way().await?;
            let report = timeout(PATIENCE, controller.report()).await??;
            note(&format!(
                "{:.0} MB/s, {} events not delivered",
                megabytes(report.bytes) / report.seconds,
                report.lagged
            ));
            let growth = megabytes(report.growth);
            verdict(&format!("host memory grew by {growth:.1} MB, target < 64"), report.growth < GROWTH);
            verdict("total_bytes, head, tail and spill file as printed", report.wrong.is_empty());
            report.wrong.iter().for_each(|wrong| note(wrong));
        }
    }
    Ok(())
}
