//! Cells that go wrong, and the exit codes that tell how.

use crate::support::{cells, feed, image, run, run_cells};

#[test]
fn a_timeout_keeps_what_it_can() {
    let Some(image) = image() else { return };
    let args = ["--timeout", "1", "--keep-going", "-c", "x = 41", "-c", "import time; time.sleep(60)", "-c", "x + 1"];
    let ended = run_cells(image, args);
    assert_eq!((ended.code, ended.stdout.as_str()), (3, "42\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("timed out after 1"), "{}", ended.stderr);
    assert!(ended.stderr.contains("variables are kept"), "{}", ended.stderr);
}

#[test]
fn code_that_does_not_heed_the_interrupt_loses_its_variables() {
    let Some(image) = image() else { return };
    let stubborn =
        "import time\nwhile True:\n    try:\n        time.sleep(60)\n    except KeyboardInterrupt:\n        pass";
    let ended =
        run_cells(image, ["--timeout", "1", "--keep-going", "-c", "x = 41", "-c", stubborn, "-c", "'x' in globals()"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (3, "False\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("variables are gone, files are kept"), "{}", ended.stderr);
}

#[test]
fn a_kernel_that_dies_is_restarted_in_its_container() {
    let Some(image) = image() else { return };
    let args = [
        "--keep-going",
        "-c",
        "open('kept', 'w').write('here')",
        "-c",
        "import os; os._exit(3)",
        "-c",
        "open('kept').read()",
    ];
    let ended = run_cells(image, args);
    assert_eq!((ended.code, ended.stdout.as_str()), (4, "4\n'here'\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("the kernel died: exit code 3; the kernel was restarted"), "{}", ended.stderr);
}

#[test]
fn out_of_memory_is_named() {
    let Some(image) = image() else { return };
    let ended = run_cells(image, ["--memory", "256m", "-c", "x = bytearray(1 << 30)"]);
    assert_eq!(ended.code, 4, "{}", ended.stderr);
    assert!(ended.stderr.contains("out of memory"), "{}", ended.stderr);
}

#[test]
fn a_missing_image_is_told_how_to_build() {
    let Some(_) = image() else { return };
    let ended = run(["run", "--image", "cellblock-test:missing", "-c", "1"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (7, ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("`cellblock image build`"), "{}", ended.stderr);
}

#[test]
fn odd_code_is_an_error_like_any_other() {
    let Some(image) = image() else { return };
    let ended = feed(cells(image, ["--keep-going", "-", "-c", "'next'"]), b"x = '\0'");
    assert_eq!((ended.code, ended.stdout.as_str()), (1, "'next'\n"), "{}", ended.stderr);
    let ended = run_cells(image, ["--keep-going", "-c", "print(chr(0xd800))", "-c", "'next'"]);
    assert!(ended.code <= 1 && ended.stdout.ends_with("'next'\n"), "{} {}", ended.stdout, ended.stderr);
}

#[test]
fn a_cell_of_five_megabytes_runs() {
    let Some(image) = image() else { return };
    let code = format!("x = '''{}'''\nlen(x)", "y".repeat(5 << 20));
    let ended = feed(cells(image, ["-"]), code.as_bytes());
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "5242880\n"), "{}", ended.stderr);
}
