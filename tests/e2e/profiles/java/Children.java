import java.io.*;
import java.util.*;
import java.util.concurrent.TimeUnit;

/** Children: output, input, an environment, a directory, a pipeline, ends by code and by signal, and one that is ended. */
public class Children {
    static String output(Process process) throws IOException {
        return new String(process.getInputStream().readAllBytes()).strip();
    }

    public static void main(String[] arguments) throws Exception {
        ProcessBuilder env = new ProcessBuilder("sh", "-c", "echo $OWN in $(basename $PWD)");
        env.environment().put("OWN", "value");
        new File("inner").mkdir();
        System.out.println(output(env.directory(new File("inner")).start()));

        Process sort = new ProcessBuilder("sort", "-n").start();
        try (Writer to = sort.outputWriter()) {
            to.write("10\n9\n1\n");
        }
        System.out.println(String.join(",", output(sort).split("\n")));

        List<Process> pipeline = ProcessBuilder.startPipeline(List.of(
                new ProcessBuilder("printf", "b\\na\\nb\\n"), new ProcessBuilder("sort"), new ProcessBuilder("uniq", "-c")));
        System.out.println(output(pipeline.get(2)).replaceAll("\\s+", " "));

        File log = new File("log");
        new ProcessBuilder("sh", "-c", "echo out; echo err >&2").redirectErrorStream(true).redirectOutput(log).start().waitFor();
        System.out.println(new BufferedReader(new FileReader(log)).lines().toList());
        log.delete();
        new File("inner").delete();

        for (String end : List.of("exit 7", "kill -9 $$")) {
            System.out.println(new ProcessBuilder("sh", "-c", end).start().waitFor());
        }
        Process sleeper = new ProcessBuilder("sleep", "60").start();
        System.out.println(sleeper.isAlive() + " " + sleeper.waitFor(10, TimeUnit.MILLISECONDS) + " "
                + ProcessHandle.current().children().count());
        sleeper.destroy();
        System.out.println(sleeper.onExit().get().exitValue());
        try {
            new ProcessBuilder("/nowhere/to/be/found").start();
        } catch (IOException missing) {
            System.out.println(missing.getMessage().contains("error=2"));
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hooked")));
        System.exit(0);
    }
}
