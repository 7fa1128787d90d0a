//! A request's whole body, within its bounds.

use axum::body::{Body, Bytes, to_bytes};

use super::refusal::{Code, Refusal};

pub(crate) async fn read(body: Body, longest: usize) -> Result<Bytes, Refusal> {
    to_bytes(body, longest).await.map_err(|error| failed(&error, longest as u64))
}

/// Why a body did not arrive whole.
pub(crate) fn failed(error: &(dyn std::error::Error + 'static), longest: u64) -> Refusal {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    if causes.any(|cause| cause.to_string().contains("length limit exceeded")) {
        return too_large(longest);
    }
    Refusal::invalid("the body did not arrive whole")
}

pub(crate) fn too_large(longest: u64) -> Refusal {
    Refusal::new(Code::TooLarge, format!("the body is longer than {longest} bytes, the most that this server takes"))
}
