#!/usr/bin/env python3
# tries: serve a page over HTTP on its own loopback and fetch it, as tests of web programs do
# must: work with a loopback of its own; what stays in the jail is no violation
# profile: python
# args: --network loopback
# expect: exit=0 status=exited verdict=clean stdout-has="hello from port" violations=none

import http.server
import threading
import urllib.request


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"hello from port {self.server.server_port}".encode())

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/") as answer:
    print(answer.read().decode())
server.shutdown()
