//! `cellblock blocks`: a message's code blocks.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Detached, Ended, cellblock, ended, feed, image, interrupt, run};

const MESSAGE: &str = "I'll make the directory first:

```bash
mkdir -p out && echo made
```

1. Then the numbers:
   ```python
   total = 6 * 7
   open('out/total.txt', 'w').write(str(total))
   print('to stderr', file=__import__('sys').stderr)
   total
   ```

```html
<!-- filename: page.html -->
<p>42</p>
```

~~~sh
cat out/total.txt
exit 3
~~~

```python
print('not reached')
```
";

/// Carries out a message that comes on stdin, in a container of its own.
fn blocks<const N: usize>(image: &str, message: &str, args: [&str; N]) -> Ended {
    feed(cellblock(["blocks", "--image", image, "-"].into_iter().chain(args)), message.as_bytes())
}

#[test]
fn a_message_is_carried_out_and_told() {
    let Some(image) = image() else { return };
    let ended = blocks(image, MESSAGE, []);
    assert_eq!((ended.code, ended.stdout.as_str()), (3, "made\n42\n42"), "{}", ended.stderr);
    let told = [
        "block 1 of 5: bash",
        "block 2 of 5: python",
        "to stderr",
        "block 3 of 5: html",
        "saved as page.html in the session",
        "block 4 of 5: sh",
        "exit code 3",
        "files: out/total.txt",
        "files go with the container: `--workdir DIR` or `--session NAME` keeps them",
    ];
    assert_eq!(ended.stderr.lines().collect::<Vec<_>>(), told);
    let directory = tempfile::tempdir().unwrap();
    let kept = blocks(image, MESSAGE, ["--workdir", directory.path().to_str().unwrap()]);
    assert_eq!(kept.stderr.lines().collect::<Vec<_>>(), told[..told.len() - 1]);
    assert_eq!(
        fs::read_to_string(directory.path().join("page.html")).unwrap(),
        "<!-- filename: page.html -->\n<p>42</p>"
    );
}

#[test]
fn a_file_in_a_session_keeps_its_variables() {
    let Some(image) = image() else { return };
    let session = Detached::start(image, "blocks");
    let directory = tempfile::tempdir().unwrap();
    let message = directory.path().join("message.md");
    fs::write(&message, "\u{feff}```python\r\nx = 41\r\n```\r\n").unwrap();
    let first = run(["blocks", message.to_str().unwrap(), "--session", &session.0]);
    assert_eq!((first.code, first.stdout.as_str()), (0, ""), "{}", first.stderr);
    assert_eq!(session.run("x + 1").stdout, "42\n");
}

#[test]
fn json_is_one_line_with_every_block() {
    let Some(image) = image() else { return };
    let ended = blocks(image, MESSAGE, ["--json"]);
    assert_eq!((ended.code, ended.stdout.lines().count(), ended.stderr.as_str()), (3, 1, ""));
    let outcome: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&outcome["v"], &outcome["exit_code"]), (&1.into(), &3.into()));
    assert_eq!(outcome["output"], "made\nto stderr\n42\nCode saved to page.html\n42");
    assert_eq!(outcome["output_files"], serde_json::json!(["out/total.txt"]));
    let results: Vec<&str> =
        outcome["blocks"].as_array().unwrap().iter().map(|block| block["result"].as_str().unwrap()).collect();
    assert_eq!(results, ["script", "cell", "saved", "script"]);
    assert_eq!(outcome["blocks"][1]["execution"]["status"], "ok");
    assert_eq!(outcome["blocks"][3]["script"]["code"], 3);
}

#[test]
fn options_say_how_blocks_run() {
    let Some(image) = image() else { return };
    let message = "```python\nx = 1\n```\n```python\nprint(x)\n```\n```awk\nBEGIN { print 6 * 7 }\n```\n```cobol\n```\n```sh\nsleep 60\n```\n";
    let ended = blocks(image, message, ["--python", "file", "--continue", "--with", "awk=awk -f", "--timeout", "2s"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (124, "42\n"), "{}", ended.stderr);
    let refused = "error: Unsupported language cobol\nhint: `--with cobol=PROGRAM` runs its blocks\n";
    for told in ["NameError", "exit code 1", refused, "timed out"] {
        assert!(ended.stderr.contains(told), "{told}: {}", ended.stderr);
    }
}

#[test]
fn what_no_interpreter_is_found_for_says_what_to_do() {
    let Some(image) = image() else { return };
    let ended = blocks(image, "```powershell\nGet-Date\n```\n", []);
    assert_eq!((ended.code, ended.stdout.as_str()), (127, ""));
    for part in ["there is no \"pwsh\" in the image", image, "\nhint: `cellblock image build --base"] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
}

#[test]
fn a_name_that_leads_out_is_told_with_what_a_name_may_be() {
    let Some(image) = image() else { return };
    let ended = blocks(image, "```sh\n# filename: ../x.sh\n```\n", []);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    let told = "error: Filename is not in the workspace\nhint: the name in its first line is relative";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

#[test]
fn ctrl_c_ends_the_block_and_keeps_the_session() {
    let Some(image) = image() else { return };
    let session = Detached::start(image, "blocks-int");
    for code in ["python\nx = 41; print('began', flush=True)\nimport time; time.sleep(60)", "sh\necho began; sleep 60"]
    {
        let directory = tempfile::tempdir().unwrap();
        let message = directory.path().join("message.md");
        fs::write(&message, format!("```{code}\n```\n```sh\necho next\n```\n")).unwrap();
        let mut command = cellblock(["blocks", message.to_str().unwrap(), "--session", &session.0]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().unwrap(), "began");
        interrupt(&child);
        assert_eq!(lines.count(), 0);
        assert_eq!(child.wait().unwrap().code(), Some(130));
    }
    assert_eq!(session.run("x + 1").stdout, "42\n");
}

#[test]
fn a_reader_that_has_seen_enough_ends_it() {
    let Some(image) = image() else { return };
    let mut child = cellblock(["blocks", "--image", image, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"```sh\nwhile :; do echo y; sleep 0.01; done\n```\n")
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "y");
    drop(lines);
    let ended = ended(&child.wait_with_output().unwrap());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

#[test]
fn messages_that_cannot_be_used_start_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str, content: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let missing = directory.path().join("missing.md").to_str().unwrap().to_owned();
    for (message, told) in [
        (path("none.md", b"No code."), "the message has no code blocks"),
        (path("latin-1.md", b"```python\nx = '\xe9'\n```"), "is not UTF-8 text"),
        (missing, "cannot read"),
        (directory.path().to_str().unwrap().to_owned(), "cannot read"),
    ] {
        let ended = run(["blocks", &message, "--image", "no-such-image"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{}", ended.stderr);
        assert!(ended.stderr.contains(told), "{told}: {}", ended.stderr);
    }
    let ended = run(["blocks", "x.md", "--with", "node"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
}
