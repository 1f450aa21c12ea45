use super::super::key::tests::pair;
use super::*;
use proptest::prelude::*;

#[test]
fn the_encoding_is_that_of_the_specification() {
    // The test vector of DSSE's protocol.md.
    let encoded = to_be_signed("http://example.com/HelloWorld", b"hello world");
    let expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world";
    assert_eq!(encoded, expected);
}

fn text() -> Vec<u8> {
    let (private, _) = pair(1);
    let mut text = serde_json::to_vec(&Envelope::sign(b"{\"a\":1}", &private)).unwrap();
    text.push(b'\n');
    text
}

fn opened(text: &[u8], keys: &[PublicKey]) -> Option<Vec<u8>> {
    Envelope::read(text).ok()?.open(keys).ok()?
}

#[test]
fn what_was_signed_is_what_comes_out() {
    let (_, public) = pair(1);
    assert_eq!(
        opened(&text(), &[public]).as_deref(),
        Some(&b"{\"a\":1}"[..])
    );
}

#[test]
fn every_bit_of_a_small_envelope_counts() {
    let (_, public) = pair(1);
    let keys = [public];
    let text = text();
    for place in 0..text.len() {
        for bit in 0..8 {
            let mut tampered = text.clone();
            tampered[place] ^= 1 << bit;
            let told = String::from_utf8_lossy(&tampered).into_owned();
            assert_eq!(opened(&tampered, &keys), None, "{told}");
        }
    }
}

#[test]
fn each_of_several_keys_must_have_signed() {
    let [(one, public_one), (two, public_two), (_, third)] = [pair(1), pair(2), pair(3)];
    let mut envelope = Envelope::sign(b"{}", &one);
    envelope
        .signatures
        .extend(Envelope::sign(b"{}", &two).signatures);
    // A signature of somebody else's over something else is in nobody's way.
    envelope
        .signatures
        .extend(Envelope::sign(b"[]", &two).signatures);
    let open = |keys: &[PublicKey]| envelope.open(keys).unwrap().is_some();
    assert!(open(std::slice::from_ref(&public_one)));
    assert!(open(&[public_one.clone(), public_two]));
    assert!(!open(&[public_one, third]));
    assert!(!open(&[]), "nobody has signed, and nobody is asked");
}

#[test]
fn a_hint_may_be_missing_and_may_not_be_wrong() {
    let (private, public) = pair(1);
    let open = |keyid: &str| {
        let mut envelope = Envelope::sign(b"{}", &private);
        envelope.signatures[0].keyid = keyid.to_owned();
        envelope
            .open(std::slice::from_ref(&public))
            .unwrap()
            .is_some()
    };
    assert!(open("") && open(&public.id()));
    assert!(!open("other"));
}

#[test]
fn what_is_no_envelope_is_refused() {
    let good = String::from_utf8(text()).unwrap();
    for bad in [
        good.replace("in-toto", "other"),
        good.replacen('{', "{\"payload\":\"\",", 1),
        format!("{good}{good}"),
        good.replacen('{', "{\"more\":1,", 1),
    ] {
        assert!(Envelope::read(bad.as_bytes()).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn no_text_opens_but_what_was_signed(place in 0..10_000_usize, with in prop::collection::vec(any::<u8>(), 0..4), cut in 0..4_usize) {
        let (_, public) = pair(1);
        let text = text();
        let place = place % text.len();
        let mut tampered = text.clone();
        tampered.splice(place..(place + cut).min(text.len()), with);
        let is_blank = |text: &[u8]| -> Vec<u8> {
            text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect()
        };
        // Blanks around words say nothing, and JSON has none elsewhere in here.
        prop_assume!(is_blank(&tampered) != is_blank(&text));
        prop_assert_eq!(opened(&tampered, &[public]), None);
    }
}
