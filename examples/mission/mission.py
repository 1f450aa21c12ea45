"""Two classes over the command `turnkey`: one runs code that a model wrote, the other says what to think of it."""

import json
import os
import subprocess
import tempfile

TURNKEY = os.environ.get("TURNKEY", "turnkey")
PROFILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mission.toml")


def turnkey(*words, **options):
    """Runs the command, and raises what it says when it failed itself."""
    ran = subprocess.run([TURNKEY, *words], capture_output=True, text=True, errors="replace", **options)
    if ran.returncode == 125:
        raise RuntimeError(ran.stderr.strip())
    return ran


def scan(code, allowed_imports=None):
    """Says what the text would do, without running it."""
    allowed = [] if allowed_imports is None else ["--allowed-imports", ",".join(allowed_imports)]
    return json.loads(turnkey("scan", "--json", "--language", "python", *allowed, "-", input=code).stdout)["files"][0]


class Sandbox:
    """Runs Python in a jail that is watched."""

    def execute_code(self, code, allowed_imports=None):
        refused = [f for f in scan(code, allowed_imports)["findings"] if f["rule"] == "import-not-allowed"]
        with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as results:
            report = os.path.join(results, "report.json")
            with open(os.path.join(work, "snippet.py"), "w", encoding="utf-8") as file:
                file.write(code)
            words = ["--quiet", "--profile", PROFILE, "--report", report, "--", "python3", "snippet.py"]
            ran = turnkey("run", *words, cwd=work, stdin=subprocess.DEVNULL)
            with open(report, encoding="utf-8") as file:
                told = json.load(file)
        usage = told["usage"]
        seconds = usage["user_seconds"] + usage["system_seconds"]
        return {
            "status": "error" if ran.returncode or refused else "success",
            "exit_code": ran.returncode,
            "output": ran.stdout + ran.stderr,
            "resource_usage": {
                "memory_mb": (usage["memory_peak_bytes"] or 0) / 2**20,
                "cpu_percent": 100 * seconds / max(usage["wall_seconds"], 0.001),
            },
            "security_violations": [{"severity": "medium", **f} for f in refused] + told["findings"],
            "programs": [program["argv"] for program in told["processes"] if program["exec_id"] > 1 and program["exe"]],
        }


class BehaviorAnalyzer:
    """Judges by the text and by what happened: the gravest violation counts."""

    WORTH = {"low": 10, "medium": 30, "high": 50, "critical": 100}
    SENSITIVE = {"ctypes", "importlib", "multiprocessing", "os", "pickle", "pty", "shutil", "signal", "socket", "subprocess"}

    def analyze_behavior(self, code, result):
        text = scan(code)
        violations = [self.violation("import", "low", f"line {i['line']}: {i['module']}")
                      for i in text["imports"] if i["module"].split(".")[0] in self.SENSITIVE]
        for finding in text["findings"]:
            grave = next(word for word, weight in (("critical", 75), ("high", 50), ("medium", 25), ("low", 0))
                         if finding["weight"] >= weight)
            violations.append(self.violation(finding["rule"], grave, f"line {finding['line']}: {finding['says']}"))
        violations += [self.violation("command", "medium", " ".join(argv)) for argv in result["programs"]]
        violations += [self.violation(f.get("id") or f["rule"], f["severity"], f.get("reason") or f["says"])
                       for f in result["security_violations"]]
        score = max((self.WORTH.get(each["severity"], 0) for each in violations), default=0)
        return {"is_safe": score < self.WORTH["medium"], "violations": violations, "risk_score": score}

    @staticmethod
    def violation(kind, severity, what):
        return {"type": kind, "severity": severity, "what": what}
