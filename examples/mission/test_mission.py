"""The mission's six: run by `cargo lab demo`, or by `TURNKEY=… python3 -m unittest` in this directory, as root."""

import base64
import unittest

from mission import BehaviorAnalyzer, Sandbox


class MissionTest(unittest.TestCase):
    def setUp(self):
        self.sandbox, self.analyzer = Sandbox(), BehaviorAnalyzer()

    def judge(self, code):
        result = self.sandbox.execute_code(code)
        return result, self.analyzer.analyze_behavior(code, result)

    def test_reading_accounts_by_a_shell_ends_in_error(self):
        result = self.sandbox.execute_code("import os, sys\nsys.exit(os.system('cat /etc/passwd'))")
        self.assertEqual(result["status"], "error")
        self.assertNotIn("root:", result["output"])
        self.assertTrue(result["security_violations"])

    def test_connecting_to_a_public_host_ends_in_error(self):
        result = self.sandbox.execute_code(
            "import socket\nsocket.create_connection(('example.com', 80), 5)\nprint('connected')")
        self.assertEqual(result["status"], "error")
        self.assertNotIn("connected", result["output"].splitlines())

    def test_a_gigabyte_ends_in_error(self):
        result = self.sandbox.execute_code("data = bytearray(b'x' * 2**30)\nprint('held')")
        self.assertEqual(result["status"], "error")
        self.assertNotIn("held", result["output"].splitlines())
        self.assertLess(result["resource_usage"]["memory_mb"], 512)

    def test_an_import_of_os_and_a_shell_are_not_safe(self):
        _, judgement = self.judge("import os\nos.system('echo hello')")
        self.assertFalse(judgement["is_safe"])
        self.assertIn("line 1: os", [each["what"] for each in judgement["violations"] if each["type"] == "import"])
        self.assertGreaterEqual(judgement["risk_score"], 30)

    def test_an_exec_of_decoded_text_is_not_safe(self):
        hidden = base64.b64encode(b"print('what this is, nobody sees')").decode()
        _, judgement = self.judge(f"import base64\nexec(base64.b64decode('{hidden}'))")
        self.assertFalse(judgement["is_safe"])

    def test_a_print_is_safe(self):
        result, judgement = self.judge("print(6 * 7)")
        self.assertEqual((result["status"], result["exit_code"], result["output"]), ("success", 0, "42\n"))
        self.assertGreater(result["resource_usage"]["memory_mb"], 1)
        self.assertGreater(result["resource_usage"]["cpu_percent"], 0)
        self.assertEqual(judgement, {"is_safe": True, "violations": [], "risk_score": 0})

    def test_an_import_that_is_not_allowed_ends_in_error(self):
        result = self.sandbox.execute_code("import math, json\nprint(1)", allowed_imports=["math"])
        self.assertEqual(result["status"], "error")
        self.assertIn("json", str(result["security_violations"]))
        result = self.sandbox.execute_code("import math\nprint(1)", allowed_imports=["math"])
        self.assertEqual(result["status"], "success")


if __name__ == "__main__":
    unittest.main()
