package main

import (
	"strings"
	"testing"
)

// told is what is reported of a stream.
func told(t *testing.T, stream string) (string, *report) {
	t.Helper()
	var out strings.Builder
	r := &report{out: &out, said: map[string]string{}, skipped: map[string][]string{}}
	if err := r.read(strings.NewReader(stream)); err != nil {
		t.Fatal(err)
	}
	r.skips()
	return out.String(), r
}

func TestSkippedTestsAreToldWithTheirReason(t *testing.T) {
	got, r := told(t, `{"Action":"output","Package":"m/a","Test":"TestX","Output":"    x_test.go:3: no npm here\n"}
{"Action":"output","Package":"m/a","Test":"TestX","Output":"--- SKIP: TestX (0.00s)\n"}
{"Action":"skip","Package":"m/a","Test":"TestX"}
{"Action":"output","Package":"m/a","Test":"TestY","Output":"    x_test.go:9: chatter\n"}
{"Action":"pass","Package":"m/a","Test":"TestY"}
{"Action":"output","Package":"m/a","Output":"PASS\n"}
{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t0.1s\n"}
{"Action":"pass","Package":"m/a"}
{"Action":"skip","Package":"m/b"}
`)
	if want := "ok  \tm/a\t0.1s\nskipped: a.TestX: no npm here\n"; got != want {
		t.Errorf("it says\n%swant\n%s", got, want)
	}
	if r.failed || r.packages != 1 {
		t.Errorf("failed %v, %d packages; want one that passed", r.failed, r.packages)
	}
}

func TestFailuresAreToldInFull(t *testing.T) {
	for name, c := range map[string]struct{ stream, want string }{
		"a test": {`{"Action":"output","Package":"m/a","Test":"TestX","Output":"wrong\n"}
{"Action":"fail","Package":"m/a","Test":"TestX"}
{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t0.1s\n"}
{"Action":"fail","Package":"m/a"}`, "wrong\nFAIL\tm/a\t0.1s\n"},
		"a test that never ended": {`{"Action":"output","Package":"m/a","Test":"TestX","Output":"panic: no\n"}
{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t0.1s\n"}
{"Action":"fail","Package":"m/a"}`, "panic: no\nFAIL\tm/a\t0.1s\n"},
		"the build": {`{"ImportPath":"m/a","Action":"build-output","Output":"undefined: x\n"}
{"ImportPath":"m/a","Action":"build-fail"}`, "undefined: x\n"},
	} {
		got, r := told(t, c.stream)
		if got != c.want || !r.failed {
			t.Errorf("%s: failed %v, and it says\n%swant\n%s", name, r.failed, got, c.want)
		}
	}
}
