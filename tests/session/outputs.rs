//! Rich outputs, in nbformat's shapes.

use std::process::Stdio;

use cellblock::{Execution, MimeBundle, Output, Session};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::lab::{Ask as _, Lab, tests};

tests! {
    links: [
        displays_and_text_are_in_order,
    ]
    everywhere: [
        an_update_replaces_its_display,
        clear_output_takes_effect_at_once_or_with_the_next_output,
        text_in_a_row_is_one_output,
    ]
    python: [
        a_display_has_all_its_representations,
        a_png_comes_as_base64,
        a_large_display_comes_whole,
        a_value_has_its_rich_representations,
        an_update_of_another_cells_display_is_no_output,
        a_page_is_a_display_at_the_end,
        displays_are_counted_and_bounded,
        a_display_of_broken_content_is_not_fatal,
    ]
    process: [
        nbformat_finds_the_outputs_valid,
    ]
}

fn bundles(execution: &Execution) -> Vec<&MimeBundle> {
    execution
        .outputs
        .iter()
        .filter_map(|output| match output {
            Output::DisplayData(bundle) => Some(bundle),
            _ => None,
        })
        .collect()
}

async fn displays_and_text_are_in_order(lab: &Lab) {
    let session = lab.session().await;
    let code = "import sys\nprint('a')\ndisplay('b')\nprint('c', file=sys.stderr)\ndisplay('d')\nprint('e')\n'f'";
    let outputs = session.good(code).await.outputs;
    let shape: Vec<String> = outputs
        .iter()
        .map(|output| match output {
            Output::Stream { name, text } => format!("{name} {text}"),
            Output::DisplayData(bundle) => format!("display {}", bundle.text().unwrap_or_default()),
            Output::ExecuteResult { bundle, .. } => format!("result {}", bundle.text().unwrap_or_default()),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(shape, ["stdout a\n", "display 'b'", "stderr c\n", "display 'd'", "stdout e\n", "result 'f'"]);
}

async fn an_update_replaces_its_display(lab: &Lab) {
    let session = lab.session().await;
    let code = "from IPython.display import display, update_display\n\
                display('one', display_id='x')\ndisplay('other')\nupdate_display('two', display_id='x')";
    let execution = session.good(code).await;
    let texts: Vec<_> = bundles(&execution).into_iter().map(MimeBundle::text).collect();
    assert_eq!(texts, [Some("'two'"), Some("'other'")]);
}

async fn clear_output_takes_effect_at_once_or_with_the_next_output(lab: &Lab) {
    let session = lab.session().await;
    let begin = "from IPython.display import clear_output\nprint('a')\n";
    let streams = |execution: &Execution| -> Vec<Value> {
        execution.outputs.iter().map(|output| json!(output)["text"].clone()).collect()
    };
    let at_once = session.good(format!("{begin}clear_output()")).await;
    assert_eq!(streams(&at_once), [] as [Value; 0]);
    assert_eq!(at_once.stdout.text, "a\n", "what was cleared is still stdout");
    assert_eq!(at_once.stdout.total_bytes, 2);
    let replaced = session.good(format!("{begin}clear_output()\nprint('b')")).await;
    assert_eq!(streams(&replaced), ["b\n"]);
    let waiting = session.good(format!("{begin}clear_output(wait=True)")).await;
    assert_eq!(streams(&waiting), ["a\n"], "nothing came after it");
    let waited = session.good(format!("{begin}clear_output(wait=True)\nprint('b')")).await;
    assert_eq!(streams(&waited), ["b\n"]);
}

async fn text_in_a_row_is_one_output(lab: &Lab) {
    let session = lab.session().await;
    let execution = session.good("for i in range(50): print('line', flush=True)").await;
    assert_eq!(execution.outputs.len(), 1, "{:?}", execution.outputs);
    assert_eq!(execution.stdout.text, "line\n".repeat(50));
}

async fn a_display_has_all_its_representations(lab: &Lab) {
    let session = lab.session().await;
    let code = "display({'text/plain': 'plain', 'text/html': '<b>h</b>', 'application/json': {'a': [1, None, 2.5]},\n\
                'image/svg+xml': '<svg/>', 'application/x-own+json': [True]},\n\
                metadata={'text/html': {'isolated': True}, 'own': 1}, raw=True)";
    let execution = session.good(code).await;
    let [bundle] = bundles(&execution)[..] else { panic!("{:?}", execution.outputs) };
    assert_eq!(bundle.text(), Some("plain"));
    assert_eq!(bundle.get("text/html"), Some("<b>h</b>"));
    assert_eq!(bundle.get("image/svg+xml"), Some("<svg/>"));
    assert_eq!(bundle.data["application/json"], json!({"a": [1, null, 2.5]}));
    assert_eq!(bundle.data["application/x-own+json"], json!([true]));
    assert_eq!(json!(bundle.metadata), json!({"text/html": {"isolated": true}, "own": 1}));
    assert!(execution.result.is_none());
}

/// One transparent pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

async fn a_png_comes_as_base64(lab: &Lab) {
    let session = lab.session().await;
    let code = format!("import base64\nfrom IPython.display import Image\nImage(data=base64.b64decode('{PNG}'))");
    let execution = session.good(code).await;
    let image = execution.result.as_ref().and_then(|result| result.get("image/png")).expect("an image");
    assert_eq!(image.trim_end(), PNG);
    assert!(execution.text().is_some_and(|text| text.starts_with("<IPython")), "{:?}", execution.text());
}

async fn a_large_display_comes_whole(lab: &Lab) {
    let session = lab.session().await;
    let code = "text = ''.join('%09d\\n' % i for i in range(500_000))\ndisplay({'text/plain': text}, raw=True)";
    let execution = session.good(code).await;
    let [bundle] = bundles(&execution)[..] else { panic!("{} outputs", execution.outputs.len()) };
    let text = bundle.text().expect("text");
    assert_eq!(text.len(), 5_000_000);
    assert!(text.starts_with("000000000\n") && text.ends_with("000499999\n"));
    assert_eq!(execution.outputs_left_out, 0);
}

async fn a_value_has_its_rich_representations(lab: &Lab) {
    let session = lab.session().await;
    let code = "class Rich:\n    def _repr_html_(self): return '<i>x</i>'\n    def __repr__(self): return 'x'\nRich()";
    let result = session.good(code).await.result.expect("a result");
    assert_eq!((result.text(), result.get("text/html")), (Some("x"), Some("<i>x</i>")));
}

async fn an_update_of_another_cells_display_is_no_output(lab: &Lab) {
    let session = lab.session().await;
    session.good("handle = display('one', display_id=True)").await;
    let execution = session.good("handle.update('two')").await;
    assert!(execution.outputs.is_empty(), "{:?}", execution.outputs);
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn a_page_is_a_display_at_the_end(lab: &Lab) {
    let session = lab.session().await;
    session.good("def documented():\n    'What it is for.'").await;
    let execution = session.good("print('before')\nget_ipython().run_line_magic('pinfo', 'documented')").await;
    let Some(Output::DisplayData(bundle)) = execution.outputs.last() else { panic!("{:?}", execution.outputs) };
    assert!(bundle.text().is_some_and(|text| text.contains("What it is for.")), "{bundle:?}");
}

async fn displays_are_counted_and_bounded(lab: &Lab) {
    let session = lab.session().await;
    // 20 displays of 4 MiB: more than a program wants to find in its memory unasked.
    let code = "for i in range(20): display({'text/plain': str(i) + ' ' + 'x' * (4 << 20)}, raw=True)";
    let execution = session.good(code).await;
    let kept: usize = bundles(&execution).iter().filter_map(|bundle| bundle.text()).map(str::len).sum();
    let count = execution.outputs.len() as u64 + execution.outputs_left_out;
    assert_eq!(count, 20, "{} are left out", execution.outputs_left_out);
    assert!(execution.outputs_left_out > 0 && kept <= 64 << 20, "{kept} bytes are kept");
    assert!(bundles(&execution)[0].text().is_some_and(|text| text.starts_with("0 ")), "the first ones are kept");
    assert_eq!(session.value("1 + 1").await, "2");
}

async fn a_display_of_broken_content_is_not_fatal(lab: &Lab) {
    let session = lab.session().await;
    session.good("from IPython.display import publish_display_data").await;
    for odd in ["float('nan')", "float('inf')", "{'deep': [[[]]]}", "None", "12345678901234567890123456789"] {
        let code = format!("display({{'application/json': {odd}, 'text/plain': 'shown'}}, raw=True)\nprint('after')");
        let execution = session.cell(code).await;
        // It may be an exception of the code; what must not be is a display lost without a word.
        if execution.is_ok() {
            assert_eq!(bundles(&execution).len() as u64 + execution.outputs_left_out, 1, "{odd}: {execution:?}");
            assert_eq!(execution.stdout.text, "after\n");
        }
    }
    assert_eq!(session.value("1 + 1").await, "2");
}

/// The oracle: a notebook with these outputs is one for nbformat.
async fn nbformat_finds_the_outputs_valid(lab: &Lab) {
    let session = lab.session().await;
    let code = "import sys\nprint('a')\nprint('b', file=sys.stderr)\n\
                display({'text/plain': 'p', 'application/json': {'x': 1}, 'text/html': '<b>'}, raw=True)\n42";
    let good = session.good(code).await;
    let bad = session.cell("print('x')\n1 / 0").await;
    validate(&session, &[good, bad]).await;
}

async fn validate(_: &Session, executions: &[Execution]) {
    let cells: Vec<Value> = executions
        .iter()
        .enumerate()
        .map(|(at, execution)| {
            json!({"cell_type": "code", "id": format!("cell{at}"), "source": "", "metadata": {},
                "execution_count": execution.execution_count, "outputs": execution.outputs})
        })
        .collect();
    let notebook = json!({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells});
    let python = std::env::var_os("CELLBLOCK_TEST_PYTHON").expect("the process tier runs");
    let check = "import json, sys, nbformat; nbformat.validate(json.load(sys.stdin))";
    let mut child = tokio::process::Command::new(python)
        .args(["-c", check])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Python");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(notebook.to_string().as_bytes()).await.expect("Python reads");
    drop(stdin);
    let output = child.wait_with_output().await.expect("Python ends");
    assert!(output.status.success(), "{}\n{notebook:#}", String::from_utf8_lossy(&output.stderr));
}
