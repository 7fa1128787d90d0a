//! Any bytes of a `bridge files`, for each thing that it can be asked for.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellblock::fuzzing::files(data));
