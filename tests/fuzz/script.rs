//! Any bytes in the place of what `bridge script` says of a script.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellblock::fuzzing::script(data));
