import com.sun.net.httpserver.HttpServer;
import java.net.*;
import java.net.http.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.nio.file.*;
import java.util.concurrent.Executors;

/** Sockets of its own loopback: HTTP with a client and a server, a selector, datagrams, a Unix socket. */
public class Talk {
    static void http() throws Exception {
        InetAddress own = InetAddress.getLoopbackAddress();
        HttpServer server = HttpServer.create(new InetSocketAddress(own, 0), 0);
        var pool = Executors.newFixedThreadPool(4);
        server.setExecutor(pool);
        server.createContext("/", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            byte[] answer = (exchange.getRequestMethod() + " " + body.length).getBytes();
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.start();
        URI place = URI.create("http://" + own.getHostAddress() + ":" + server.getAddress().getPort() + "/");
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        var post = HttpRequest.newBuilder(place).POST(HttpRequest.BodyPublishers.ofByteArray(new byte[100_000])).build();
        var answers = HttpResponse.BodyHandlers.ofString();
        System.out.println(client.send(HttpRequest.newBuilder(place).build(), answers).body());
        System.out.println(client.sendAsync(post, answers).get().body());
        server.stop(0);
        pool.shutdownNow();
    }

    static void select() throws Exception {
        try (Selector selector = Selector.open(); ServerSocketChannel server = ServerSocketChannel.open()) {
            server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0)).configureBlocking(false);
            server.register(selector, SelectionKey.OP_ACCEPT);
            try (SocketChannel peer = SocketChannel.open(server.getLocalAddress())) {
                peer.write(ByteBuffer.wrap("selected".getBytes()));
                peer.shutdownOutput();
                selector.select();
                SocketChannel served = server.accept();
                served.configureBlocking(false);
                served.register(selector, SelectionKey.OP_READ);
                ByteBuffer text = ByteBuffer.allocate(64);
                while (served.read(text) >= 0) {
                    selector.select(100);
                }
                System.out.println(new String(text.array(), 0, text.position()));
                served.close();
            }
        }
    }

    static void datagrams() throws Exception {
        InetAddress own = InetAddress.getLoopbackAddress();
        try (DatagramSocket to = new DatagramSocket(0, own); DatagramSocket from = new DatagramSocket(0, own)) {
            from.send(new DatagramPacket("sent".getBytes(), 4, to.getLocalSocketAddress()));
            DatagramPacket got = new DatagramPacket(new byte[64], 64);
            to.receive(got);
            System.out.println(new String(got.getData(), 0, got.getLength()));
        }
    }

    static void unix() throws Exception {
        UnixDomainSocketAddress place = UnixDomainSocketAddress.of("door");
        try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(place);
                SocketChannel peer = SocketChannel.open(place); SocketChannel served = server.accept()) {
            served.write(ByteBuffer.wrap("local".getBytes()));
            ByteBuffer text = ByteBuffer.allocate(5);
            while (text.hasRemaining() && peer.read(text) >= 0) { }
            System.out.println(new String(text.array()));
        }
        Files.delete(place.getPath());
    }

    public static void main(String[] arguments) throws Exception {
        http();
        select();
        datagrams();
        unix();
        try {
            new Socket(InetAddress.getLoopbackAddress(), 9).close();
        } catch (ConnectException nobody) {
            System.out.println("nobody listens");
        }
    }
}
