//! Many calls at once: their order, and whose output is whose.

use futures_util::future::join_all;

use cellblock::{Event, Status};
use futures_util::StreamExt as _;

use crate::lab::{Ask as _, Lab, tests, until};

tests! {
    links: [
        cells_run_in_the_order_of_their_calls,
        every_cell_gets_exactly_its_own_output,
    ]
    everywhere: [
        an_error_does_not_stop_those_behind_it,
        tasks_on_many_handles_each_get_their_own,
    ]
    python: [
        a_thread_prints_to_the_cell_that_started_it,
        another_client_of_the_kernel_costs_no_cell_its_output,
        the_first_output_after_the_start_is_there,
    ]
}

async fn cells_run_in_the_order_of_their_calls(lab: &Lab) {
    let session = lab.session().await;
    session.good("order = ''").await;
    let calls = (0..40).map(|i| session.run(format!("order += '{i} '\norder")).into_future());
    let mut expected = String::new();
    for (i, execution) in join_all(calls).await.into_iter().enumerate() {
        expected += &format!("{i} ");
        assert_eq!(execution.expect("the call goes well").text(), Some(format!("'{expected}'").as_str()));
    }
}

async fn an_error_does_not_stop_those_behind_it(lab: &Lab) {
    let session = lab.session().await;
    let codes = ["x = 1", "raise ValueError('x')", "x += 1", "= =", "x"];
    let all = join_all(codes.map(|code| session.run(code).into_future())).await;
    let all: Vec<_> = all.into_iter().map(|execution| execution.expect("the call goes well")).collect();
    let names: Vec<_> = all.iter().map(|one| one.error().map_or("ok", |error| error.ename.as_str())).collect();
    assert_eq!(names, ["ok", "ValueError", "ok", "SyntaxError", "ok"]);
    assert_eq!(all[4].text(), Some("2"));
    assert!(all.iter().all(|one| one.status != Status::Aborted));
}

async fn every_cell_gets_exactly_its_own_output(lab: &Lab) {
    let session = lab.session().await;
    let other = session.clone();
    // Somebody else asks the kernel other things all the while.
    let noise = tokio::spawn(async move {
        loop {
            let asked = other.complete("pri", 3).await;
            assert!(asked.is_ok(), "{asked:?}");
            assert!(other.is_complete("x = 1").await.is_ok());
        }
    });
    for i in 0..lab.rounds(1000) {
        // IPython warns of more than 1,000 results.
        let result = (i % 4 == 0).then(|| i.to_string());
        let value = result.as_ref().map(|number| format!("{number} + 0")).unwrap_or_default();
        let execution = session.good(format!("print('cell {i}')\n{value}")).await;
        assert_eq!(execution.stdout.text, format!("cell {i}\n"));
        assert_eq!(execution.text(), result.as_deref());
        assert_eq!(execution.outputs.len(), 1 + usize::from(result.is_some()), "{:?}", execution.outputs);
    }
    assert!(!noise.is_finished(), "the questions are answered all the while");
    noise.abort();
}

/// A second client in the container, of Jupyter's own make, that asks at random moments until it is ended.
const ASKER: &str = r#"
import json, random, sys, time
from jupyter_client import BlockingKernelClient

client = BlockingKernelClient()
client.load_connection_info(json.loads(sys.argv[1]))
client.start_channels(shell=True, iopub=False, stdin=False, hb=False, control=False)
while True:
    asked = client.kernel_info()
    answer = client.get_shell_msg(timeout=30)
    assert answer['parent_header']['msg_id'] == asked, answer
    print('answered', flush=True)
    time.sleep(random.random() / 50)
"#;

async fn another_client_of_the_kernel_costs_no_cell_its_output(lab: &Lab) {
    let session = lab.session().await;
    let begin = format!(
        "import json, subprocess, sys\ninfo = get_ipython().kernel.parent.get_connection_info()\n\
         info['key'] = info['key'].decode()\n\
         asker = subprocess.Popen([sys.executable, '-c', {ASKER:?}, json.dumps(info)], stdout=open('answers', 'w'))\n\
         def asked(): return asker.poll() is None and len(open('answers').readlines())"
    );
    session.good(begin).await;
    until("it asks", async || session.value("asked() > 0").await == "True").await;
    let before: u32 = session.value("asked()").await.parse().expect("it still asks");
    for i in 0..lab.rounds(250) {
        let execution = session.good(format!("print('cell {i}')")).await;
        assert_eq!((execution.stdout.text, execution.outputs.len()), (format!("cell {i}\n"), 1));
    }
    let after: u32 = session.value("asked()").await.parse().expect("it still asks");
    assert!(after > before, "it asked all the while");
    session.good("asker.kill()").await;
}

async fn tasks_on_many_handles_each_get_their_own(lab: &Lab) {
    let session = lab.session().await;
    let tasks = (0..50).map(|i| {
        let session = session.clone();
        tokio::spawn(async move {
            let code = format!("print('task {i}')");
            if i % 2 == 0 {
                return session.good(code).await.stdout.text == format!("task {i}\n");
            }
            let mut stream = session.run_stream(code);
            let mut text = String::new();
            while let Some(event) = stream.next().await {
                if let Event::Stdout(part) = event.expect("the call goes well") {
                    text += &part;
                }
            }
            text == format!("task {i}\n")
        })
    });
    assert!(join_all(tasks).await.into_iter().all(|right| right.expect("no panic")));
}

async fn a_thread_prints_to_the_cell_that_started_it(lab: &Lab) {
    let session = lab.session().await;
    let code = "import threading\ngo, done = threading.Event(), threading.Event()\ndef work():\n    go.wait()\n    \
                print('from the thread', flush=True)\n    done.set()\nthreading.Thread(target=work).start()";
    session.good(code).await;
    for _ in 0..3 {
        let execution = session.good("go.set()\ndone.wait()\nprint('own')").await;
        assert_eq!(execution.stdout.text, "own\n");
    }
}

async fn the_first_output_after_the_start_is_there(lab: &Lab) {
    for _ in 0..3 {
        let session = lab.session().await;
        let execution = session.good("print('first')\n1").await;
        assert_eq!((execution.stdout.text.as_str(), execution.text()), ("first\n", Some("1")));
        session.restart().await.expect("it restarts");
        let execution = session.good("print('again')\n2").await;
        assert_eq!((execution.stdout.text.as_str(), execution.text()), ("again\n", Some("2")));
        session.stop().await.expect("it stops");
    }
}
