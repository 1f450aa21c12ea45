//! `go`: the system's Go, on a module without dependencies.

use turnkey_expectations::expected;

use super::{passed, under};

expected!(
    not_on [ORDINARY_6_12, PROGRAMS_6_12],
    "Go takes an emulated CPU long: on this host"
);

expected!(
    at_night,
    "the compiler takes its time; `interfaces::` and `profiles::compile::` have what the \
     profile is made of"
);

const PROGRAM: &str = r#"package main

import (
	"fmt"
	"net"
	"os/exec"
	"sync"
)

func main() {
	var wait sync.WaitGroup
	squares := make([]int, 8)
	for n := range squares {
		wait.Add(1)
		go func(n int) { squares[n] = n * n; wait.Done() }(n)
	}
	wait.Wait()
	interfaces, err := net.Interfaces()
	if err != nil {
		panic(err)
	}
	name, err := exec.Command("uname", "-s").Output()
	fmt.Print(squares, " ", len(interfaces), " ", interfaces[0].Name, " ", string(name), err, "\n")
}
"#;

#[test]
fn a_module_is_compiled_and_run() {
    let run = under("go").file("go.mod", "module answer\n\ngo 1.19\n");
    let ran = run.file("main.go", PROGRAM).run(&["go", "run", "."]);
    passed(&ran, "[0 1 4 9 16 25 36 49] 1 lo Linux\n<nil>\n");
}

#[test]
fn the_runtime_is_sized_by_the_jail() {
    let program = "package main\n\nimport (\n\t\"fmt\"\n\t\"runtime\"\n\t\"runtime/debug\"\n)\n\n\
        func main() { fmt.Println(runtime.GOMAXPROCS(0), debug.SetMemoryLimit(-1)) }\n";
    let run = under("go").option("--cpu 100% --memory 1G");
    let ran = run.file("main.go", program).run(&["go", "run", "main.go"]);
    passed(&ran, "1 536870912\n");
}
