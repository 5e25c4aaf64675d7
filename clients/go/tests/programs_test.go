package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	rushgate "github.com/rushgate/rushgate/clients/go"
	"github.com/rushgate/rushgate/clients/go/internal/testenv"
)

// build builds a program of this folder.
func build(t *testing.T, folder string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), folder)
	if output, err := exec.Command("go", "build", "-o", program, "./"+folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return program
}

func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	output, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return string(output)
}

func TestTheExampleOfTheReadmeRuns(t *testing.T) {
	source, err := os.ReadFile("example/main.go")
	fail(t, err)
	readme, err := os.ReadFile("../README.md")
	fail(t, err)
	if !strings.Contains(string(readme), "```go\n"+string(source)+"```") {
		t.Error("the README has another example")
	}
	example := build(t, "example")
	testenv.Each(t, func(target testenv.Target) bool { return target.Name != "tls" }, func(t *testing.T, target testenv.Target) {
		t.Setenv("RUSHGATE_URL", target.URL)
		t.Setenv("RUSHGATE_TOKEN", testenv.Options(target.URL).Token)
		output := run(t, example)
		if !strings.Contains(output, "fencing token") || !strings.Contains(output, "sent to ann in attempt 1") {
			t.Errorf("output %q", output)
		}
	})
}

func TestThePeerPlaysItsRoles(t *testing.T) {
	peer := build(t, "peer")
	testenv.Each(t, testenv.All, func(t *testing.T, target testenv.Target) {
		fences := filepath.Join(t.TempDir(), "fences")
		if err := os.WriteFile(fences, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, peer, target.URL, "count", testenv.Unique("lock"), "3", fences)
		if text, err := os.ReadFile(fences); err != nil || strings.Count(string(text), " go\n") != 3 {
			t.Errorf("fences %q, %v", text, err)
		}
		queue, done := testenv.Unique("queue"), testenv.Unique("done")
		run(t, peer, target.URL, "enqueue", queue, "3")
		output := run(t, peer, target.URL, "work", queue, "3", done)
		for n := 1; n <= 3; n++ {
			if !strings.Contains(output, fmt.Sprintf(`"go:%d"`, n)) {
				t.Errorf("output %q", output)
			}
		}
		sale := newSale(t, target.Connect(t), rushgate.NewSale{
			ID: testenv.Unique("sale"), SKUs: []rushgate.NewSKU{{SKU: "phone", Units: 2}}, Ledger: rushgate.Ptr(false),
		})
		if output := run(t, peer, target.URL, "buy", sale.ID(), "3"); !strings.HasPrefix(output, "» {") || !strings.Contains(output, `"refused":1`) {
			t.Errorf("output %q", output)
		}
	})
}
