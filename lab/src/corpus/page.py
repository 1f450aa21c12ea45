"""Answers every question over HTTPS with one text: python3 page.py CERTIFICATE KEY TEXT VISITS

Each connection, whatever becomes of it, adds a byte to the file VISITS.
"""

import http.server
import socketserver
import ssl
import sys

certificate, key, text, visits = sys.argv[1:]


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def get_request(self):
        connection, address = self.socket.accept()
        with open(visits, "a") as file:
            file.write(".")
        # The handshake is the thread's: a visitor who says nothing keeps nobody waiting.
        connection.settimeout(10)
        return context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        ), address

    def handle_error(self, request, address):
        pass


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
Server(("127.0.0.1", 443), Page).serve_forever()
