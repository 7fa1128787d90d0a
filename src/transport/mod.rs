//! Links to the container, the guard, and the kernel's channels. `zeromq` types never leave this folder.

#![deny(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod bridge;
mod channels;
mod frame;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod guard;
mod link;
mod program_socket;
mod pump;
mod recording;
mod relay;
mod socket;
mod unread;
mod zmtp;

pub(crate) use bridge::{Bridge, BridgeError, BridgeEvent, CellReport, Hello, KernelExit, Launched, is_clean};
pub(crate) use channels::{ChannelError, Channels, Incoming};
pub(crate) use frame::{Frame, FrameCodec, HEADER, Kind as FrameKind, MAX_PAYLOAD, read_header, write_header};
pub(crate) use link::Link;
pub(crate) use program_socket::{ProgramSocket, remove_left};
pub(crate) use pump::ChannelEnd;
pub(crate) use recording::Reassembly;
pub(crate) use relay::relay_link;
pub(crate) use socket::SocketListener;

/// One of the kernel's channels that the driver uses. The fifth, the heartbeat, is bound by the kernel for other front ends:
/// for the driver, the bridge's exit report and the container's end are the authority on death.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Channel {
    Shell,
    Stdin,
    Control,
    Iopub,
}

impl Channel {
    /// Its name in the relay's OPEN frame.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Stdin => "stdin",
            Self::Control => "control",
            Self::Iopub => "iopub",
        }
    }

    /// Its number in the names of sockets, as Jupyter's ipc transport counts.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Shell => 1,
            Self::Stdin => 2,
            Self::Control => 3,
            Self::Iopub => 4,
        }
    }
}
