package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store/storetest"
)

func TestTasksAreFilesToo(t *testing.T) {
	b := newBench(t, nil)
	id := b.MustTask(tipstaff.Task{Description: "Write a parser.\n\nWith tests.\n"}).ID
	run := b.MustSpawn(id)
	l := b.MustAcquire(run)
	b.MustAppend(l, flow.Draft{Kind: "task.log", Note: true, Body: storetest.Body(`{"task":%q,"invocation":"i","level":"info","text":"began"}`, id)},
		storetest.Moved(id, "in_progress", "needs_review", "worker", ""),
		flow.Draft{Kind: "task.status", Note: true, Body: storetest.Body(`{"task":%q,"from":"needs_review","to":"in_progress","by":"system","iteration":2,`+
			`"feedback":{"iteration":1,"verdict":"rejected","text":"no tests","by":"local:cli","at":"2026-11-15T02:30:00Z"}}`, id)})
	check := func() {
		t.Helper()
		if err := b.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"task.yaml": string(b.StoredTask(id).YAML()), "description.md": "Write a parser.\n\nWith tests.\n", "log.md": "began\n", "feedback/001.md": "\n\nno tests\n"} {
			got, err := os.ReadFile(filepath.Join(folder(b.dir).task(id), name))
			if err != nil || !strings.HasSuffix(string(got), want) {
				t.Errorf("%s is %q, want an end of %q: %v", name, got, want, err)
			}
		}
	}
	check()
	before, err := os.ReadFile(filepath.Join(folder(b.dir).task(id), "task.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := storetest.AppendErr(b, l, storetest.Moved(id, "in_progress", "completed", "worker", "")); err == nil {
		t.Fatal("a move that there is not was stored")
	}
	if after, err := os.ReadFile(filepath.Join(folder(b.dir).task(id), "task.yaml")); string(after) != string(before) || err != nil {
		t.Errorf("a refused move changed the file: %v", err)
	}
	b.shut()
	if err := os.RemoveAll(folder(b.dir).at("tasks")); err != nil {
		t.Fatal(err)
	}
	b.open(nobodyLives())
	check()
	b.shut()
	stale := strings.Replace(string(before), "\nrevision: ", "\nrevision: 9", 1)
	if err := os.WriteFile(filepath.Join(folder(b.dir).task(id), "task.yaml"), []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	b.open(nobodyLives())
	check()
}
