//! Any bytes of a link, and any pages of a recording.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellblock::fuzzing::link(data));
