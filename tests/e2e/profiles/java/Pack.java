import java.io.*;
import java.lang.reflect.*;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.security.*;
import java.util.*;
import java.util.zip.*;
import javax.crypto.*;
import javax.crypto.spec.*;
import javax.tools.*;

/** What lies on native code and on the virtual machine: archives, ciphers, memory beside the heap, a class that is compiled and loaded. */
public class Pack {
    static void archive() throws Exception {
        Path file = Path.of("packed.zip");
        try (ZipOutputStream to = new ZipOutputStream(Files.newOutputStream(file))) {
            to.putNextEntry(new ZipEntry("entry"));
            to.write("text ".repeat(1000).getBytes());
        }
        try (FileSystem inside = FileSystems.newFileSystem(file)) {
            System.out.println("zip " + Files.size(inside.getPath("entry")) + " " + (Files.size(file) < 300));
        }
        Files.delete(file);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (GZIPOutputStream to = new GZIPOutputStream(bytes)) {
            to.write(new byte[100_000]);
        }
        System.out.println("gzip " + new GZIPInputStream(new ByteArrayInputStream(bytes.toByteArray())).readAllBytes().length);
    }

    static void ciphers() throws Exception {
        byte[] hash = MessageDigest.getInstance("SHA-256").digest("text".getBytes());
        System.out.println(HexFormat.of().formatHex(hash, 0, 8));
        byte[] key = new byte[16], nonce = new byte[12];
        SecureRandom.getInstanceStrong().nextBytes(key);
        new SecureRandom().nextBytes(nonce);
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(Cipher.ENCRYPT_MODE, new SecretKeySpec(key, "AES"), new GCMParameterSpec(128, nonce));
        byte[] closed = cipher.doFinal("secret".getBytes());
        cipher.init(Cipher.DECRYPT_MODE, new SecretKeySpec(key, "AES"), new GCMParameterSpec(128, nonce));
        System.out.println(new String(cipher.doFinal(closed)));
        KeyPairGenerator pairs = KeyPairGenerator.getInstance("EC");
        KeyPair pair = pairs.generateKeyPair();
        Signature signature = Signature.getInstance("SHA256withECDSA");
        signature.initSign(pair.getPrivate());
        signature.update(hash);
        byte[] signed = signature.sign();
        signature.initVerify(pair.getPublic());
        signature.update(hash);
        System.out.println("signed " + signature.verify(signed));
    }

    static void load() throws Exception {
        Path source = Files.writeString(Path.of("Loaded.java"),
                "public class Loaded implements java.util.function.Supplier<String> { public String get() { return \"loaded\"; } }");
        int failed = ToolProvider.getSystemJavaCompiler().run(null, null, null, "-d", "classes", source.toString());
        try (URLClassLoader loader = new URLClassLoader(new URL[] {Path.of("classes").toUri().toURL()})) {
            Object made = loader.loadClass("Loaded").getDeclaredConstructor().newInstance();
            System.out.println(failed + " " + made.getClass().getMethod("get").invoke(made));
        }
        Comparator<?> proxy = (Comparator<?>) Proxy.newProxyInstance(Pack.class.getClassLoader(), new Class<?>[] {Comparator.class},
                (self, method, given) -> method.getName().length());
        Method compare = Comparator.class.getMethod("compare", Object.class, Object.class);
        System.out.println("proxy " + compare.invoke(proxy, 1, 2));
    }

    public static void main(String[] arguments) throws Exception {
        archive();
        ciphers();
        ByteBuffer beside = ByteBuffer.allocateDirect(32 << 20);
        for (int at = 0; at < beside.capacity(); at += 4096) {
            beside.put(at, (byte) 1);
        }
        System.out.println("direct " + beside.capacity());
        load();
        try {
            List<byte[]> all = new ArrayList<>();
            while (true) {
                all.add(new byte[1 << 20]);
            }
        } catch (OutOfMemoryError full) {
            System.out.println("full");
        }
        System.out.println(new String(ByteBuffer.wrap("ends".getBytes(StandardCharsets.UTF_8)).array()));
    }
}
