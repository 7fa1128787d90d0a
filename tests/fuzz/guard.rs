//! Any bytes of a channel, in any pieces, through the guard.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cellblock::fuzzing::guard(data));
