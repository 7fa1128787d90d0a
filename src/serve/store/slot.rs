//! What stands behind an identifier.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::sync::Arc;

use tokio::sync::watch;

use super::Store;
use super::entry::Entry;
use super::kept::Known;
use super::starting::Start;
use crate::serve::identifier::Identifier;
use crate::serve::refusal::{Code, Refusal};

/// Sessions by identifier, and those that wait for one.
pub(super) type Slots = HashMap<Identifier, Slot>;

#[derive(Debug, Clone)]
pub(super) enum Slot {
    /// An earlier server gave it out, and this one has not taken hold of it yet.
    Left(Arc<Known>),
    /// Everybody who asks meanwhile waits for the same start, or for the same session of an earlier server.
    Starting {
        outcome: watch::Receiver<Option<Refusal>>,
        left: Option<Arc<Known>>,
    },
    Ready(Arc<Entry>),
}

/// A slot that is to be filled. Dropped before that, by a fault of ours, it is as it was, and whoever waits is told.
#[derive(Debug)]
pub(super) struct Filling {
    store: Arc<Store>,
    identifier: Identifier,
    left: Option<Arc<Known>>,
    outcome: watch::Sender<Option<Refusal>>,
    is_over: bool,
    /// Counted until the slot is filled.
    _start: Start,
}

impl Filling {
    /// Makes the slot one that waits. What was there is over.
    pub(super) fn begin(
        store: &Arc<Store>,
        slots: &mut Slots,
        identifier: &Identifier,
        left: Option<Arc<Known>>,
    ) -> (Self, watch::Receiver<Option<Refusal>>) {
        let (sender, outcome) = watch::channel(None);
        let slot = Slot::Starting { outcome: outcome.clone(), left: left.clone() };
        if let Some(Slot::Ready(over)) = slots.insert(identifier.clone(), slot) {
            store.end_soon(over.session.clone());
        }
        let (store, identifier, start) = (Arc::clone(store), identifier.clone(), store.starts.begin());
        (Self { store, identifier, left, outcome: sender, is_over: false, _start: start }, outcome)
    }

    pub(super) fn fill(mut self, entry: Arc<Entry>) {
        self.is_over = true;
        self.store.put(&mut self.store.lock(), entry);
    }

    /// What was there before is gone: whoever waits finds nothing, and goes on from there.
    pub(super) fn forget(mut self) {
        self.left = None;
        self.empty();
        self.store.changed();
    }

    pub(super) fn refuse(mut self, refusal: Refusal) {
        self.empty();
        self.outcome.send_replace(Some(refusal));
    }

    fn empty(&mut self) {
        self.is_over = true;
        let mut slots = self.store.lock();
        if let MapEntry::Occupied(mut slot) = slots.entry(self.identifier.clone()) {
            match self.left.take() {
                Some(known) => _ = slot.insert(Slot::Left(known)),
                None => _ = slot.remove(),
            }
        }
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        if !self.is_over {
            self.empty();
            self.outcome.send_replace(Some(Refusal::new(Code::Internal, "this server has a fault")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::store;
    use super::*;

    fn code(refused: Result<super::super::Opened, Refusal>) -> Option<Code> {
        refused.err().map(|refusal| refusal.code())
    }

    #[tokio::test]
    async fn a_fault_while_a_session_starts_leaves_no_slot_that_is_never_ready() {
        let (store, identifier) = (store(None), Identifier::random());
        let (filling, _) = Filling::begin(&store, &mut store.lock(), &identifier, None);
        let waits = tokio::spawn({
            let (store, identifier) = (Arc::clone(&store), identifier.clone());
            async move { code(store.open(&identifier).await) }
        });
        tokio::task::yield_now().await;
        assert!(store.starts.are_under_way() && store.lock().len() == 1);
        let fault = tokio::spawn(async move {
            let _filling = filling;
            panic!("a fault")
        });
        assert!(fault.await.is_err_and(|error| error.is_panic()));
        assert_eq!(waits.await.unwrap(), Some(Code::Internal));
        assert!(!store.starts.are_under_way() && store.lock().is_empty(), "nothing waits, and nothing is counted");
    }

    #[tokio::test]
    async fn a_fault_while_a_session_is_taken_over_does_not_forget_it() {
        let (store, identifier) = (store(None), Identifier::random());
        let known = Arc::new(Known::default());
        let (filling, _) = Filling::begin(&store, &mut store.lock(), &identifier, Some(Arc::clone(&known)));
        drop(filling);
        assert!(matches!(store.lock().get(&identifier), Some(Slot::Left(left)) if Arc::ptr_eq(left, &known)));
        assert_eq!(store.find(&identifier).err().map(|refusal| refusal.code()), Some(Code::SessionFailed));
    }
}
