//! What a session costs the host's disk, whatever its code writes.

use std::path::Path;

use bollard::query_parameters::InspectContainerOptions;
use cellblock::Session;

use crate::lab::{Ask as _, files_below, on, say};

#[tokio::test]
async fn nothing_that_code_writes_comes_into_the_engines_log() {
    on(async |lab| {
        let name = lab.name("log");
        let builder = Session::builder().engine(lab.engine()).image(&lab.image).name(&name);
        let session = builder.start().await.expect("a session");
        let id = lab.container(&name).await.expect("its container").id;
        let inspected = lab.bollard().inspect_container(&id.0, None::<InspectContainerOptions>).await;
        let inspected = inspected.expect("its inspection");
        let options = inspected.host_config.and_then(|host| host.log_config?.config).unwrap_or_default();
        assert_eq!((options["max-size"].as_str(), options["max-file"].as_str()), ("1m", "1"), "what does has a limit");
        let path = inspected.log_path.unwrap_or_default();
        let Some(logs) = Path::new(&path).parent().filter(|logs| logs.is_dir()) else {
            return say(&format!("skipped: the engine's log cannot be read here: {path:?}"));
        };
        let before = size(logs);
        // By every way that leads out of the kernel past what it says on its channels.
        let code = "import os, subprocess, sys\n\
                    line = b'x' * 99_999 + b'\\n'\n\
                    for descriptor in (1, 2):\n    for _ in range(100): os.write(descriptor, line)\n\
                    for stream in (sys.__stdout__, sys.__stderr__):\n    \
                    for _ in range(100): stream.write(line.decode())\n    stream.flush()\n\
                    subprocess.run(['head', '-c', '10000000', '/dev/zero']).returncode";
        let execution = session.cell(code).await;
        assert_eq!(execution.text(), Some("0"), "{}", execution.status);
        assert_eq!(size(logs), before, "what leaves the kernel does so on its channels, or not at all");
        session.stop().await.expect("it stops");
        assert!(!logs.exists(), "they go with the container");
    })
    .await;
}

fn size(directory: &Path) -> u64 {
    files_below(directory).iter().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}
