use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use proptest::prelude::*;

use super::{TEXT, channel};
use crate::execution::Event;
use crate::execution::tests::support::collected;

fn numbered(number: u32) -> Event {
    Event::Started { execution_count: Some(number) }
}

fn done() -> Event {
    Event::Done(Box::new(collected(&[])))
}

fn cost() -> usize {
    numbered(0).cost()
}

#[tokio::test]
async fn events_come_in_order_and_done_is_the_last() {
    let (sender, receiver) = channel(1 << 20);
    sender.send(numbered(1));
    sender.send(Event::Stdout("a".into()));
    sender.send(Event::Stdout("b".into()));
    sender.send(Event::Stderr("c".into()));
    sender.send(done());
    drop(sender);
    let events: Vec<_> = receiver.collect().await;
    assert!(
        matches!(
            events.as_slice(),
            [Event::Started { .. }, Event::Stdout(out), Event::Stderr(_), Event::Done(_)] if out == "ab"
        ),
        "{events:?}"
    );
}

#[tokio::test]
async fn text_is_put_together_up_to_a_size() {
    let (sender, receiver) = channel(1 << 20);
    for _ in 0..3 {
        sender.send(Event::Stdout("x".repeat(TEXT / 2)));
    }
    drop(sender);
    let lengths: Vec<_> =
        receiver.map(|event| if let Event::Stdout(text) = event { text.len() } else { 0 }).collect().await;
    assert_eq!(lengths, [TEXT, TEXT / 2]);
}

#[tokio::test]
async fn what_does_not_fit_is_counted_in_its_place_and_done_goes_through() {
    let (sender, mut receiver) = channel(2 * cost());
    for number in 0..5 {
        sender.send(numbered(number));
    }
    assert!(matches!(receiver.next().await, Some(Event::Started { execution_count: Some(0) })));
    sender.send(numbered(5));
    sender.send(numbered(6));
    sender.send(done());
    drop(sender);
    let rest: Vec<_> = receiver.collect().await;
    assert!(
        matches!(
            rest.as_slice(),
            [
                Event::Started { execution_count: Some(1) },
                Event::Lagged { events: 3 },
                Event::Started { execution_count: Some(5) },
                Event::Lagged { events: 1 },
                Event::Done(_)
            ]
        ),
        "{rest:?}"
    );
}

#[tokio::test]
async fn an_event_larger_than_the_budget_passes_alone() {
    let (sender, mut receiver) = channel(10);
    sender.send(Event::Stdout("x".repeat(1_000)));
    sender.send(Event::Stderr("y".into()));
    assert!(matches!(receiver.next().await, Some(Event::Stdout(_))));
    sender.send(Event::Stderr("z".into()));
    assert!(matches!(receiver.next().await, Some(Event::Lagged { events: 1 })));
    assert!(matches!(receiver.next().await, Some(Event::Stderr(_))));
}

#[tokio::test]
async fn a_receive_that_is_dropped_loses_nothing() {
    let (sender, mut receiver) = channel(1 << 20);
    for number in 0..20 {
        for _ in 0..number % 3 {
            assert!(receiver.next().now_or_never().is_none());
        }
        sender.send(numbered(number));
        let Some(Event::Started { execution_count }) = receiver.next().await else { panic!("not the event") };
        assert_eq!(execution_count, Some(number));
    }
    drop(sender);
    assert!(receiver.next().await.is_none());
}

#[tokio::test]
async fn a_waiting_receiver_is_woken_by_an_event_and_by_the_end() {
    let (sender, mut receiver) = channel(1 << 20);
    let task = tokio::spawn(async move {
        let first = receiver.next().await;
        (first, receiver.next().await)
    });
    tokio::task::yield_now().await;
    sender.send(numbered(1));
    tokio::task::yield_now().await;
    drop(sender);
    let (first, second) = tokio::time::timeout(Duration::from_secs(5), task).await.expect("woken").expect("no panic");
    assert!(first.is_some() && second.is_none());
}

proptest! {
    #[test]
    fn every_event_is_delivered_or_counted_where_it_was(budget in 0usize..8, steps in proptest::collection::vec(any::<bool>(), 0..200)) {
        let (sender, mut receiver) = channel(budget * cost());
        let (mut sent, mut seen) = (0, 0);
        for send in steps {
            if send {
                sender.send(numbered(sent));
                sent += 1;
                prop_assert!(sender.0.queue().bytes <= budget.max(1) * cost());
            } else if let Some(Some(event)) = receiver.next().now_or_never() {
                seen = after(seen, &event);
            }
        }
        drop(sender);
        while let Some(Some(event)) = receiver.next().now_or_never() {
            seen = after(seen, &event);
        }
        prop_assert_eq!(seen, sent);
    }
}

/// How many of the numbered events this one, coming after `seen` of them, accounts for.
fn after(seen: u32, event: &Event) -> u32 {
    match event {
        Event::Started { execution_count } => {
            assert_eq!(*execution_count, Some(seen));
            seen + 1
        }
        Event::Lagged { events } => seen + u32::try_from(*events).expect("few"),
        other => panic!("{other:?}"),
    }
}
