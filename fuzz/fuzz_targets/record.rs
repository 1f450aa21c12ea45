//! Any bytes as a record of the kernel: an event that says no more than the bytes, and all of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use turnkey_fuzz::encode;
use turnkey_monitor::decode;

fuzz_target!(|bytes: &[u8]| {
    let Ok(event) = decode(bytes) else {
        return;
    };
    let again = encode(&event);
    // The encoder ends the last argument with a zero, which a record may have cut off; an address
    // has its family and an IPv6 one its scope.
    assert!(again.len() <= bytes.len() + 4, "an event that grew");
    assert_eq!(decode(&again), Ok(event));
    assert!(decode(&again[..again.len() - 1]).is_err(), "a cut record");
});
