//! Any frames, signed truly or not, into messages and an execution.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellblock::fuzzing::protocol(data));
