//! The page for browsers, in one: Chromium without a window, a network or a sandbox of its own.

use std::path::PathBuf;

use serde_json::{Value, json};
use turnkey_expectations::expected;
use turnkey_tests::Browser;

use super::{Told, render, text, told};

expected!(
    not_on[PROGRAMS_6_12],
    "a browser would take an emulated CPU longer than a test may, and shows what is \
     rendered without a jail"
);

const INSTALLER: &str = include_str!("../../../examples/hostile/fake_installer.py");

/// A run with something in every part of the page.
fn story() -> Told {
    let options = ["--mode", "observe", "--capture", "--quiet", "--syscalls"];
    told(&options, &["python3", "-c", INSTALLER])
}

fn page(story: &Told) -> PathBuf {
    let page = story.directory.path().join("report.html");
    let out = page.display().to_string();
    let rendered = render(&story.report(), &["--format", "html", "--out", &out]);
    assert!(rendered.status.success(), "{}", text(&rendered.stderr));
    page
}

fn visible_rows(browser: &mut Browser, table: &str) -> Value {
    browser.evaluate(&format!(
        "[...document.querySelectorAll('#{table} tbody tr')].filter(row => row.offsetParent).length"
    ))
}

#[test]
fn the_page_tells_the_run_filters_and_folds_and_fetches_nothing() {
    let story = story();
    let mut browser = Browser::start();
    browser.open(&page(&story));
    let words = browser.evaluate("document.body.innerText");
    let words = words.as_str().expect("a page has text");
    for part in [
        "Violated",
        "What happened",
        "private-key",
        "T1552.004",
        "Timeline",
        "Processes",
        "Network",
        "203.0.113.7:443",
        "package/setup.py",
        "System calls made",
        "execve",
        "What was enforced",
        "landlock",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let all = visible_rows(&mut browser, "files");
    assert!(all.as_u64() > Some(20), "{all}");
    browser.click("#files input");
    browser.write(".ssh/id_");
    assert_eq!(visible_rows(&mut browser, "files"), 1);
    let told = browser.evaluate("document.querySelector('#files output').textContent");
    assert_eq!(told, format!("1 of {all}"));
    let denied = "(() => { const it = document.querySelector('#network select'); it.value = 'denied'; \
                  it.dispatchEvent(new Event('change')); })()";
    browser.evaluate(denied);
    let kinds = "[...new Set([...document.querySelectorAll('#network tbody tr')].filter(row => row.offsetParent)\
                 .map(row => row.dataset.result))].join()";
    assert_eq!(browser.evaluate(kinds), "denied");

    let folded = "document.querySelectorAll('.tree details:not([open])').length";
    assert_eq!(browser.evaluate(folded), 0);
    browser.click("[data-tree=close]");
    assert!(browser.evaluate(folded).as_u64() > Some(0));
    browser.click(".tree summary");
    assert_eq!(
        browser.evaluate("document.querySelector('.tree details').open"),
        true
    );
    browser.click("[data-tree=open]");
    assert_eq!(browser.evaluate(folded), 0);
    let finding = "document.querySelectorAll('.finding[open]').length";
    let open = browser.evaluate(finding).as_u64();
    browser.click(".finding:not([open]) summary");
    assert_eq!(
        browser.evaluate(finding).as_u64(),
        open.map(|open| open + 1)
    );

    nothing_was_fetched(&mut browser, 1);
}

/// Only the pages themselves were asked for, and no script but the page's own would run or fetch.
fn nothing_was_fetched(browser: &mut Browser, pages: usize) {
    assert_eq!(
        browser.evaluate("performance.getEntriesByType('resource').length"),
        0
    );
    let asked: Vec<_> = browser
        .seen("Network.requestWillBeSent")
        .iter()
        .map(|it| it["request"]["url"].clone())
        .collect();
    assert!(
        asked.len() <= pages
            && asked
                .iter()
                .all(|it| it.as_str().is_some_and(|it| it.starts_with("file:"))),
        "{asked:?}"
    );
    let complaints = browser.seen("Log.entryAdded");
    assert!(complaints.is_empty(), "{complaints:?}");
    // The control: the policy of the page stops what would.
    let tried = "new Promise(done => { let seen = []; \
        document.addEventListener('securitypolicyviolation', event => { seen.push(event.effectiveDirective); \
            if (seen.length === 3) done(seen.sort().join()); }); \
        fetch('http://192.0.2.1/').catch(() => 0); new Image().src = 'http://192.0.2.1/a.png'; \
        const script = document.createElement('script'); script.textContent = 'window.owned = 1'; document.body.append(script); \
        setTimeout(() => done(seen.sort().join()), 3000); })";
    assert_eq!(
        browser.evaluate(tried),
        "connect-src,img-src,script-src-elem"
    );
    assert_eq!(browser.evaluate("typeof window.owned"), "undefined");
}

/// A report in which every text is markup.
fn poisoned(value: &mut Value, poison: &str) {
    const KEPT: &[&str] = &[
        "schema",
        "status",
        "verdict",
        "severity",
        "action",
        "mode",
        "on",
        "act",
        "layer",
        "result",
        "change",
        "socket",
        "stopped_by",
        "access",
        "memory",
        "time",
        "start",
        "end",
        "first_time",
        "last_time",
        "started_at",
    ];
    match value {
        Value::String(text) => text.push_str(poison),
        Value::Array(list) => list.iter_mut().for_each(|value| poisoned(value, poison)),
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                if !KEPT.contains(&key.as_str()) {
                    poisoned(value, poison);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn hostile_names_are_text_wherever_they_stand() {
    let story = story();
    let stored = std::fs::read(story.report()).expect("there is a report");
    let mut value: Value = serde_json::from_slice(&stored).expect("it is JSON");
    let poison = "\"><script>window.owned=1</script><img src=x onerror=window.owned=2></style>--><svg onload=window.owned=3>&lt;";
    poisoned(&mut value, poison);
    // Names of counts, and a list that is empty in this run.
    value["events"]["seen"][poison] = json!(7);
    value["on_host"] = json!([poison]);
    std::fs::write(story.report(), value.to_string()).expect("a test can write its own directory");
    let mut browser = Browser::start();
    browser.open(&page(&story));
    assert_eq!(browser.evaluate("typeof window.owned"), "undefined");
    let foreign =
        "document.querySelectorAll('img, svg, iframe, object, embed, link, base, form').length";
    assert_eq!(browser.evaluate(foreign), 0);
    assert_eq!(browser.evaluate("document.scripts.length"), 1);
    let handlers = "[...document.querySelectorAll('*')].flatMap(it => it.getAttributeNames()).filter(name => name.startsWith('on')).length";
    assert_eq!(browser.evaluate(handlers), 0);
    // All of it can be read: in paths, arguments, reasons, proofs, names of counts.
    let text_of = |selector: &str| {
        format!(
            "document.querySelector({}).textContent.includes({})",
            json!(selector),
            json!(poison)
        )
    };
    for part in [
        ".command",
        ".facts",
        ".finding",
        ".finding .attempt",
        ".tree",
        ".lanes code",
        "#files",
        "#network",
        "#changed",
        "#calls",
        "#layers",
        "#evidence",
        "title",
    ] {
        assert_eq!(browser.evaluate(&text_of(part)), true, "{part}");
    }
    let hint = format!(
        "[...document.querySelectorAll('[title]')].some(it => it.title.includes({}))",
        json!(poison)
    );
    assert_eq!(browser.evaluate(&hint), true);
    nothing_was_fetched(&mut browser, 1);
}

#[test]
fn the_page_can_be_read_without_scripts_in_the_dark_and_on_paper() {
    let story = story();
    let page = page(&story);
    let mut browser = Browser::start();
    browser.call(
        "Emulation.setScriptExecutionDisabled",
        json!({ "value": true }),
    );
    browser.open(&page);
    let rows = visible_rows(&mut browser, "files").as_u64();
    assert!(rows > Some(20), "{rows:?}");
    assert_eq!(
        browser.evaluate("!!document.querySelector('.tools').offsetParent"),
        false
    );
    browser.click(".finding:not([open]) summary");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('.finding[open]').length"),
        2
    );

    let shade = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((sum, it) => sum + +it, 0)";
    let dark = |on: &str| json!({ "features": [{ "name": "prefers-color-scheme", "value": on }] });
    browser.call("Emulation.setEmulatedMedia", dark("light"));
    assert!(browser.evaluate(shade).as_u64() > Some(650));
    browser.call("Emulation.setEmulatedMedia", dark("dark"));
    assert!(browser.evaluate(shade).as_u64() < Some(120));

    let printed = browser.call("Page.printToPDF", json!({ "printBackground": true }));
    let length = printed["data"].as_str().map_or(0, str::len);
    assert!(length > 20_000, "{length}");
}
