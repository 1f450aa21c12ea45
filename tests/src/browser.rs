//! A browser without a window and without a network, spoken to through a pipe: the DevTools protocol.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// How long an answer may take; starting takes most of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Switches that make it start the same everywhere and speak to nobody. As root it has no sandbox of its
/// own; the pages are ours, and there is no network in its namespace.
const SWITCHES: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
    "--window-size=1240,900",
];

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: String,
    next: u64,
    /// Events that came while an answer was waited for.
    events: Vec<Value>,
    /// Its profile, which goes with it.
    _home: tempfile::TempDir,
}

impl Browser {
    /// Starts it with an empty page, in a network namespace that leads nowhere.
    pub fn start() -> Browser {
        let home = super::scratch();
        // The protocol is spoken on the descriptors 3 and 4.
        let mut command = Command::new("unshare");
        command
            .args([
                "--net",
                "--",
                "sh",
                "-c",
                "exec \"$@\" 3<&0 4>&1 0</dev/null 1>&2",
                "sh",
            ])
            .arg("chromium")
            .args(SWITCHES)
            .arg(format!("--user-data-dir={}", home.path().display()))
            .arg("about:blank")
            .env("HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("chromium is installed");
        let to = child.stdin.take().expect("it is a pipe");
        let from = listen(child.stdout.take().expect("it is a pipe"));
        let mut browser = Browser {
            child,
            to,
            from,
            session: String::new(),
            next: 0,
            events: Vec::new(),
            _home: home,
        };
        browser.attach();
        browser
    }

    fn attach(&mut self) {
        let mut page = None;
        super::eventually("the browser has a page", || {
            let targets = self.call("Target.getTargets", json!({}));
            let targets = targets["targetInfos"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            page = targets.into_iter().find(|target| target["type"] == "page");
            page.is_some()
        });
        let target = page.expect("it was found")["targetId"].clone();
        let attached = self.call(
            "Target.attachToTarget",
            json!({ "targetId": target, "flatten": true }),
        );
        attached["sessionId"]
            .as_str()
            .expect("a session")
            .clone_into(&mut self.session);
        for domain in [
            "Page.enable",
            "Network.enable",
            "Log.enable",
            "Runtime.enable",
        ] {
            self.call(domain, json!({}));
        }
    }

    /// Calls a method of the protocol and waits for its answer; panics when it is an error.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let text = format!("{message}\0");
        self.to
            .write_all(text.as_bytes())
            .expect("the browser lives");
        loop {
            let answer = self.from.recv_timeout(PATIENCE);
            let answer = answer.unwrap_or_else(|_| panic!("no answer to {method}"));
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    /// Opens a file and waits until it is there.
    pub fn open(&mut self, file: &Path) {
        self.call(
            "Page.navigate",
            json!({ "url": format!("file://{}", file.display()) }),
        );
        super::eventually("the page is there", || {
            self.evaluate("document.readyState === 'complete' && location.protocol === 'file:'")
                == true
        });
    }

    /// The value of an expression of JavaScript, waited for.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", parameters);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// Presses and releases the mouse in the middle of an element.
    pub fn click(&mut self, selector: &str) {
        let place = self.evaluate(&format!(
            "(() => {{ const it = document.querySelector({}); it.scrollIntoView({{block: 'center'}}); \
             const box = it.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()",
            json!(selector)
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Types a text where the last click was.
    pub fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Events of this kind so far.
    pub fn seen(&self, method: &str) -> Vec<&Value> {
        let events = self.events.iter().filter(|event| event["method"] == method);
        events.map(|event| &event["params"]).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // When it is gone already there is nothing to end.
        let _ = self
            .to
            .write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let ended = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            matches!(self.child.try_wait(), Ok(Some(_)))
        });
        if !ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Messages end with a zero byte.
fn listen(from: ChildStdout) -> Receiver<Value> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for message in BufReader::new(from).split(0).map_while(Result::ok) {
            let message = serde_json::from_slice(&message).expect("the protocol is JSON");
            if sender.send(message).is_err() {
                break;
            }
        }
    });
    receiver
}
