//go:build linux

package control

import (
	"os"
	"slices"
	"testing"
)

// A client is generated from the OpenAPI document, its use is checked by a compiler, and it
// takes a run from its start to its evidence.
func TestGeneratedClient(t *testing.T) {
	b := newBed(t)
	modules := module(t)
	d := b.serve()

	dir := b.Path("generated")
	source, err := os.ReadFile("client.ts")
	b.Check(err)
	b.Write("generated/client.ts", string(source))
	b.Write("generated/package.json", `{"type": "module"}`)
	b.Write("generated/tsconfig.json", `{"compilerOptions": {"strict": true, "noUncheckedIndexedAccess": true, "target": "es2022", "module": "nodenext", "lib": ["es2023", "dom"], "types": []}, "files": ["client.ts", "process.d.ts"]}`)
	b.Write("generated/process.d.ts", "declare const process: { argv: string[] };\n")
	b.Check(os.Symlink(modules, b.Path("generated", "node_modules")))
	b.Write("generated/openapi.json", string(d.ask("GET", "/openapi.json", nil)))
	b.must(program{argv: []string{node(t), module(t, "openapi-typescript", "bin", "cli.js"), "openapi.json", "--output", "api.ts"}, dir: dir})
	if e := b.run(program{argv: []string{node(t), module(t, "typescript", "bin", "tsc"), "--project", "."}, dir: dir}); e.code != 0 {
		t.Fatalf("the compiler says:\n%s", e.out)
	}
	var told struct {
		Run, Again, Question, Refused, State string
		Decision                             struct{ Action string }
		Steps                                []string
		Records, Head                        int
		Listed                               []string
	}
	b.decode([]byte(b.must(program{argv: []string{node(t), "client.js", d.url, d.token, b.Read("ask.yaml")}, dir: dir})), &told)
	if told.Again != told.Run || told.Question != "Double it?" || told.Decision.Action != "approve" || told.Refused != "decision_conflict" || told.State != "completed" {
		t.Errorf("the client was told %+v", told)
	}
	if want := []string{"root/first", "root/ok", "root/second"}; !slices.Equal(told.Steps, want) {
		t.Errorf("the steps are %q, not %q", told.Steps, want)
	}
	if told.Records != told.Head || !slices.Equal(told.Listed, []string{told.Run}) {
		t.Errorf("%d records of %d, runs %q", told.Records, told.Head, told.Listed)
	}
	b.wellDone(told.Run, "a generated client")
}
