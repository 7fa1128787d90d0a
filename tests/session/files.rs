//! Files in and out.

use crate::lab::{Ask as _, Lab, tests};

tests! {
    python: [what_is_put_is_there_and_comes_back]
}

async fn what_is_put_is_there_and_comes_back(lab: &Lab) {
    let session = lab.session().await;
    let files = session.files();
    let content: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    files.put("made/by/put.bin", content.clone()).await.expect("put");
    let sum = "import hashlib; hashlib.sha256(open('made/by/put.bin', 'rb').read()).hexdigest()";
    session.good(sum).await;
    assert!(files.get("/mnt/data/made/by/put.bin").await.expect("get") == content);
    let entry = files.stat("/workspace/made/by/put.bin").await.expect("stat");
    assert_eq!((entry.path.as_str(), entry.size), ("made/by/put.bin", 12_000_000));
    let listed = files.list_tree(".").await.expect("list");
    assert_eq!(
        listed.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(),
        ["made", "made/by", "made/by/put.bin"]
    );
    let host = tempfile::tempdir().expect("a directory");
    let transfer = files.download("made", host.path().join("got")).await.expect("download");
    assert_eq!((transfer.files, transfer.directories, transfer.bytes), (1, 2, 12_000_000));
    files.upload(host.path().join("got"), "again").await.expect("upload");
    assert!(files.get("again/by/put.bin").await.expect("get") == content);
    files.remove_tree("made").await.expect("remove");
    assert!(files.stat("made").await.is_err_and(|error| error.is_no_such_file()));
}
