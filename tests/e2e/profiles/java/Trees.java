import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.*;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Files: a tree, a mapping, a lock, links, modes, a temporary file, a watcher. */
public class Trees {
    static String shown(Path root) throws IOException {
        try (Stream<Path> all = Files.walk(root)) {
            return all.map(path -> root.relativize(path).toString()).sorted().collect(Collectors.joining(" "));
        }
    }

    static void map(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE,
                StandardOpenOption.CREATE); FileLock lock = channel.lock()) {
            MappedByteBuffer mapped = channel.map(FileChannel.MapMode.READ_WRITE, 0, 8192);
            mapped.putLong(4096, 42);
            mapped.force();
            ByteBuffer read = ByteBuffer.allocate(8);
            channel.read(read, 4096);
            System.out.println("mapped " + read.getLong(0) + " of " + channel.size() + ", locked " + lock.isValid());
        }
    }

    static void watch(Path root) throws Exception {
        try (WatchService watcher = FileSystems.getDefault().newWatchService()) {
            root.register(watcher, StandardWatchEventKinds.ENTRY_CREATE);
            Files.writeString(root.resolve("seen"), "x");
            System.out.println("watched " + watcher.take().pollEvents().get(0).context());
        }
    }

    public static void main(String[] arguments) throws Exception {
        Path root = Files.createDirectories(Path.of("tree"));
        Path text = Files.writeString(Files.createDirectories(root.resolve("a/b")).resolve("text"), "one\ntwo\n");
        Files.createSymbolicLink(root.resolve("link"), Path.of("a/b/text"));
        Files.createLink(root.resolve("twin"), text);
        System.out.println(Files.readAllLines(root.resolve("link")) + " " + Files.isSameFile(text, root.resolve("twin")));
        Files.setPosixFilePermissions(text, PosixFilePermissions.fromString("rw-r-----"));
        System.out.println(PosixFilePermissions.toString(Files.getPosixFilePermissions(root.resolve("twin"))));
        map(root.resolve("mapped"));
        watch(root);
        Files.move(text, root.resolve("moved"), StandardCopyOption.ATOMIC_MOVE);
        Files.copy(root.resolve("moved"), root.resolve("copy"), StandardCopyOption.COPY_ATTRIBUTES);
        System.out.println(shown(root));
        Path temporary = Files.createTempFile("own", null);
        System.out.println(Files.size(temporary) + " " + Files.deleteIfExists(temporary));
        try (Stream<Path> all = Files.walk(root)) {
            all.sorted((one, other) -> other.compareTo(one)).forEach(Trees::remove);
        }
        System.out.println(Files.exists(root));
    }

    static void remove(Path path) {
        try {
            Files.delete(path);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
