//! Tests of other files a second time, as an ordinary user by way of a service.

use turnkey_expectations::expected;

expected!(
    not_on[ORDINARY_6_12],
    "the same tests run here as root; what is different by a service is the rest of `service::`"
);

macro_rules! by_the_service {
    ($($file:ident::$test:ident)*) => { $(
        #[test]
        fn $test() {
            turnkey_tests::served(crate::$file::$test);
        }
    )* };
}

crate::again::of_every_caller!(by_the_service);
