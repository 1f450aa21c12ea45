//! `java`: the system's JDK.

use turnkey_expectations::expected;

use turnkey_tests::{outside, scratch};

use super::under;

expected!(
    not_on [ORDINARY_6_12, PROGRAMS_6_12],
    "a virtual machine of Java takes an emulated CPU long: on this host"
);

/// A file that java itself compiles, with many needs: threads, a file, loopback, a child, ends of children, a heap that is full; then
/// the interfaces, and a signal that its own handler answers.
const ONE: &str = r#"import java.net.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
public class One {
    static int threads() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Integer>> all = new ArrayList<>();
        for (int n = 1; n <= 8; n++) { int m = n; all.add(pool.submit(() -> m * m)); }
        int sum = 0;
        for (Future<Integer> one : all) sum += one.get();
        pool.shutdown();
        return sum;
    }
    static String talk() throws Exception {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            Thread served = new Thread(() -> {
                try (Socket peer = server.accept()) { peer.getOutputStream().write("spoken".getBytes()); }
                catch (Exception error) { System.out.println(error); }
            });
            served.start();
            try (Socket peer = new Socket(server.getInetAddress(), server.getLocalPort())) {
                return new String(peer.getInputStream().readAllBytes());
            }
        }
    }
    static int end(String script) throws Exception {
        return new ProcessBuilder("sh", "-c", script).start().waitFor();
    }
    static String fill() {
        List<byte[]> all = new ArrayList<>();
        try { while (true) all.add(new byte[1 << 20]); }
        catch (OutOfMemoryError full) { all.clear(); return "full"; }
    }
    public static void main(String[] arguments) throws Exception {
        System.out.println(threads());
        Path made = Files.writeString(Path.of("made"), "written");
        System.out.println(Files.readString(made));
        System.out.println(talk());
        Process child = new ProcessBuilder("uname", "-s").start();
        System.out.print(new String(child.getInputStream().readAllBytes()));
        System.out.println(end("exit 7") + " " + end("kill -9 $$"));
        System.out.println(fill());
        System.out.println(NetworkInterface.networkInterfaces().map(NetworkInterface::getName).collect(Collectors.toList()));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("ended")));
        end("kill -TERM " + ProcessHandle.current().pid());
        Thread.sleep(9000);
    }
}"#;

#[test]
fn a_program_is_compiled_and_run() {
    let run = under("java").option("--network loopback");
    let run = run.file("One.java", ONE);
    let ran = run.run(&["java", "-Xmx96m", "One.java"]);
    ran.expect_code(128 + 15);
    ran.expect(
        ran.stdout == "204\nwritten\nspoken\nLinux\n7 137\nfull\n[lo]\nended\n",
        "what it prints outside",
    );
    ran.expect(ran.at("/verdict") == "clean", "clean");
    ran.expect(
        !ran.stderr.contains("blocked"),
        "and nothing of it is stopped",
    );
}

const SIX: [(&str, &str); 6] = [
    ("Children", include_str!("java/Children.java")),
    ("Pack", include_str!("java/Pack.java")),
    ("Parse", include_str!("java/Parse.java")),
    ("Pools", include_str!("java/Pools.java")),
    ("Talk", include_str!("java/Talk.java")),
    ("Trees", include_str!("java/Trees.java")),
];

/// Compiles all of them, and runs each.
const EACH: &str = "javac -Xlint:all -Werror *.java || exit
for one in *.java; do echo $one; java -Xmx96m ${one%.java} || exit; done";

expected!(
    six_programs_are_compiled_and_run: at_night,
    "seven virtual machines are started, twice; `profiles::java::a_program_is_compiled_and_run` starts one"
);
#[test]
fn six_programs_are_compiled_and_run() {
    let place = scratch();
    for (name, text) in SIX {
        let file = place.path().join(name).with_extension("java");
        std::fs::write(file, text).expect("a test can write its own directory");
    }
    let there = format!("cd {} && {EACH}", place.path().display());
    let (ended, control) = outside("sh", &["-c", &there]);
    assert!(ended.success(), "the control: {control}");
    let run = under("java").option("--network loopback");
    let run = SIX.iter().fold(run, |run, (name, text)| {
        run.file(&format!("{name}.java"), text)
    });
    let ran = run.shell(EACH);
    ran.expect_code(0);
    ran.expect(ran.stdout == control, "what they print outside");
    ran.expect(ran.at("/verdict") == "clean", "clean");
}

#[test]
fn threads_are_counted_by_the_jails_cpus() {
    let program = "public class Cpus { public static void main(String[] no) {
        System.out.println(Runtime.getRuntime().availableProcessors()); } }";
    let run = under("java")
        .option("--cpu 100%")
        .file("Cpus.java", program);
    let ran = run.run(&["java", "Cpus.java"]);
    ran.expect(ran.stdout == "1\n", "the share, and not the host");
}

#[test]
fn a_heap_is_sized_by_the_jail_and_not_by_the_host() {
    let heap = |option: &str| {
        let run = under("java").option(format!("--memory 512M {option}").trim_end());
        let ran = run.shell("java -XX:+PrintFlagsFinal -version | grep -w MaxHeapSize");
        ran.expect_code(0);
        let number = ran.stdout.split_whitespace().nth(3);
        number
            .and_then(|number| number.parse::<u64>().ok())
            .unwrap_or_default()
    };
    assert_eq!(
        heap(""),
        128 << 20,
        "a quarter, as of a machine of that size"
    );
    let control = heap("--env JAVA_TOOL_OPTIONS=-Xshare:auto");
    assert!(control > 128 << 20, "the control: {control}");
}
