//! `java`: the system's JDK.

use turnkey_expectations::expected;

use super::{passed, under};

expected!(
    not_on [ORDINARY_6_12, PROGRAMS_6_12],
    "a virtual machine of Java takes an emulated processor long: on this host"
);

/// Six programs in one: threads, a file, loopback, a child, a collection, an exception; and the interfaces.
const SIX: &str = r#"import java.net.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
public class Six {
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
    public static void main(String[] arguments) throws Exception {
        System.out.println(threads());
        Path made = Files.writeString(Path.of("made"), "written");
        System.out.println(Files.readString(made));
        System.out.println(talk());
        Process child = new ProcessBuilder("uname", "-s").start();
        System.out.print(new String(child.getInputStream().readAllBytes()));
        System.out.println(new TreeSet<>(List.of("the quick brown fox".split(" "))));
        try { Objects.requireNonNull(null); } catch (NullPointerException caught) { System.out.println("caught"); }
        System.out.println(NetworkInterface.networkInterfaces().map(NetworkInterface::getName).collect(Collectors.toList()));
    }
}"#;

#[test]
fn a_program_is_compiled_and_run() {
    let run = under("java").option("--network loopback");
    let ran = run.file("Six.java", SIX).run(&["java", "Six.java"]);
    passed(
        &ran,
        "204\nwritten\nspoken\nLinux\n[brown, fox, quick, the]\ncaught\n[lo]\n",
    );
    ran.expect(
        !ran.stderr.contains("blocked"),
        "and nothing of it is stopped",
    );
}
