package tool_test

import (
	"testing"
)

func TestReadFileGivesTextAndDigest(t *testing.T) {
	b := newBench(t, everything)
	b.write("a.txt", "hello")
	got := must[object](b, "read_file", object{"path": "a.txt"})
	if got["text"] != "hello" || got["size"] != 5.0 || got["path"] != "a.txt" {
		t.Errorf("got %v", got)
	}
}

func TestExecSmoke(t *testing.T) {
	b := newBench(t, everything)
	got := must[object](b, "exec", object{"argv": []string{"printf", "%s", "$HOME;ls"}})
	if got["stdout"] != "$HOME;ls" {
		t.Errorf("got %v", got)
	}
}
