//! The warm call: from sending `1+1` to its reply and idle.

use std::time::Duration;

use cellblock::{LinkPolicy, Session};

use crate::jupyter::Jupyter;
use crate::report::{self, Sample};
use crate::support::{Result, calls, order, session};

const ROUNDS: usize = 40;
const CALLS: usize = 10;
const WARM_UP: usize = 30;

/// One side of the comparison. Both clients stay connected to both kernels, whoever is measured.
struct Arm<'a> {
    sample: Sample,
    kernel: &'static str,
    client: Client<'a>,
}

enum Client<'a> {
    Ours(&'a Session),
    Jupyter(&'static str),
}

impl Arm<'_> {
    async fn measure(&self, jupyter: &mut Jupyter, count: usize) -> Result<Vec<Duration>> {
        match self.client {
            Client::Ours(session) => calls(session, count).await,
            Client::Jupyter(way) => jupyter.warm(self.kernel, way, count).await,
        }
    }
}

pub(crate) async fn measure() -> Result<()> {
    let stock = session(LinkPolicy::Socket).stock_kernel(true).start().await?;
    let launcher = session(LinkPolicy::Socket).start().await?;
    let mut jupyter = Jupyter::spawn()?;
    jupyter.connect("stock", &stock).await?;
    jupyter.connect("launcher", &launcher).await?;
    let arm = |name: &str, kernel, client| Arm { sample: Sample::new(name), kernel, client };
    let mut arms = [
        arm("cellblock, stock kernel", "stock", Client::Ours(&stock)),
        arm("jupyter_client execute_interactive, stock", "stock", Client::Jupyter("interactive")),
        arm("jupyter_client leanest loop, stock", "stock", Client::Jupyter("lean")),
        arm("cellblock, launcher's kernel", "launcher", Client::Ours(&launcher)),
        arm("jupyter_client leanest loop, launcher's", "launcher", Client::Jupyter("lean")),
    ];
    for arm in &arms {
        arm.measure(&mut jupyter, WARM_UP).await?;
    }
    for round in 0..ROUNDS {
        for index in order(round, arms.len()) {
            let times = arms[index].measure(&mut jupyter, CALLS).await?;
            arms[index].sample.extend(times);
        }
    }
    let [ours, theirs, their_least, ours_launcher, their_least_launcher] = arms.each_ref().map(|arm| &arm.sample);
    report::table(
        "warm call 1+1, send to reply and idle",
        &[ours, theirs, their_least, ours_launcher, their_least_launcher],
    );
    report::ratio("stock kernel, p50, ours / execute_interactive", ours.median(), theirs.median(), 0.85);
    report::ratio("stock kernel, p50, ours / leanest loop", ours.median(), their_least.median(), 0.85);
    report::ratio("launcher's kernel / execute_interactive on stock", ours_launcher.median(), theirs.median(), 0.6);
    report::ratio("launcher's kernel / leanest loop on stock", ours_launcher.median(), their_least.median(), 0.6);
    stock.stop().await?;
    launcher.stop().await?;
    Ok(())
}
