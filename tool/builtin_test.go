package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

func TestBuiltinClasses(t *testing.T) {
	b := newBench(t, everything)
	got := map[string]flow.Class{}
	for _, d := range b.gate.Tools.Definitions() {
		got[d.Tool] = d.Class
		if d.OutputSchema == nil || d.Version != "1.0.0" {
			t.Errorf("%s: version %q, output schema %v", d.Tool, d.Version, d.OutputSchema)
		}
	}
	want := map[string]flow.Class{"read_file": flow.Read, "write_file": flow.Idempotent, "list_dir": flow.Read, "http_get": flow.Read,
		"exec": flow.Once, "json_query": flow.Read, "sleep": flow.Read}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if names := builtin.Tools(); len(names) != len(want) || !slices.IsSorted(names) {
		t.Errorf("builtin.Tools is %v", names)
	}
}

func TestReadFile(t *testing.T) {
	b := newBench(t, everything)
	b.write("sub/a.txt", "hello")
	b.write("binary", "a\x00b")
	b.write("latin", "caf\xe9")
	b.write("big", strings.Repeat("x", 1<<20+1))
	if err := syscall.Mkfifo(filepath.Join(b.dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := must[object](b, "read_file", object{"path": "sub/a.txt"})
	want := object{"path": "sub/a.txt", "text": "hello", "size": 5.0, "sha256": "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := must[object](b, "read_file", object{"path": "big", "max_bytes": 2 << 20}); got["size"] != float64(1<<20+1) {
		t.Errorf("with max_bytes: %v", got["size"])
	}
	for path, why := range map[string]string{"binary": "not UTF-8", "latin": "not UTF-8", "big": "max_bytes", "none": "no such file", "sub": "not a regular file", "fifo": "not a regular file"} {
		contains(t, b.fails(tool.CodeToolError, "read_file", object{"path": path}).Message, why)
	}
}

func TestParseOfATextFile(t *testing.T) {
	b := newBench(t, everything)
	b.write("a.json", `{"big": 9007199254740993}`)
	a := b.attempt("read_file", nil)
	a.Input = flow.JSON(tool.Input{URI: uriOf("read_file"), Args: flow.JSON(object{"path": "a.json"}), Parse: tool.ParseJSON})
	value, err := b.try(context.Background(), a)
	if err != nil || string(value) != `{"big":9007199254740993}` {
		t.Errorf("got %s, %v", value, err)
	}
}

// TestFilesStayInTheirRoots: every way out is tried with every tool that takes a
// path, and nothing outside is read, written or listed.
func TestFilesStayInTheirRoots(t *testing.T) {
	b := oldBench(t, strings.Replace(everything, `roots: ["."]`, `roots: [in]`, 1))
	b.write("outside/secret", "secret")
	b.write("in/file", "inside")
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(b.dir, "in", name)); err != nil {
			t.Fatal(err)
		}
	}
	link("../outside", "relative-link")
	link(filepath.Join(b.dir, "outside"), "absolute-link")
	link("../outside/secret", "file-link")
	link("file", "good-link")
	for _, path := range []string{"../outside", "./../outside", "x/../../outside", "relative-link", "absolute-link", filepath.Join(b.dir, "outside"),
		filepath.Join(b.dir, "in", "..", "outside"), filepath.Join(b.dir, "in", "relative-link"), filepath.Join(b.dir, "in-not"), "/"} {
		b.fails(tool.CodeToolError, "list_dir", object{"path": path})
		b.fails(tool.CodeToolError, "read_file", object{"path": path + "/secret"})
		b.fails(tool.CodeToolError, "write_file", object{"path": path + "/new", "content": "x"})
		b.fails(tool.CodeToolError, "exec", object{"argv": []string{"env"}, "cwd": path})
	}
	b.fails(tool.CodeToolError, "read_file", object{"path": "file-link"})
	b.fails(tool.CodeToolError, "read_file", object{"path": "a\x00b"})
	must[object](b, "write_file", object{"path": "file-link", "content": "mine"}) // replaces the link, not what it leads to
	entries, err := os.ReadDir(filepath.Join(b.dir, "outside"))
	if err != nil || len(entries) != 1 {
		t.Errorf("outside now has %v, %v", entries, err)
	}
	if data, _ := os.ReadFile(filepath.Join(b.dir, "outside", "secret")); string(data) != "secret" {
		t.Errorf("the secret is now %q", data)
	}
	if got := must[object](b, "read_file", object{"path": "good-link"}); got["text"] != "inside" {
		t.Errorf("a link that stays inside: %v", got)
	}
}

// TestWhatARunIsBoundBy: the keys, the manifest and the lock are out of reach,
// directly, through links, and in other cases of letters.
func TestWhatARunIsBoundBy(t *testing.T) {
	b := oldBench(t, everything)
	b.write(".tipstaff/keys/user.key", "secret")
	b.write("tipstaff.lock", "locked")
	for name, to := range map[string]string{"innocent": ".tipstaff/keys/user.key", "folder": ".tipstaff", "here": "."} {
		if err := os.Symlink(to, filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{".tipstaff/keys/user.key", "./x/../.tipstaff/keys/user.key", "innocent", "folder/keys/user.key",
		"here/.tipstaff/keys/user.key", filepath.Join(b.dir, ".tipstaff/keys/user.key"), "sub/../here/here/folder/keys/user.key"} {
		b.fails(tool.CodeToolError, "read_file", object{"path": path})
	}
	for _, path := range []string{".tipstaff/keys/user.key", ".tipstaff/new", "folder/keys/user.key", "folder/new/deep", "tipstaff.lock", "tipstaff.yaml",
		"here/tipstaff.lock", "TIPSTAFF.lock", ".Tipstaff/new", filepath.Join(b.dir, "tipstaff.yaml")} {
		b.fails(tool.CodeToolError, "write_file", object{"path": path, "content": "mine"})
	}
	for name, want := range map[string]string{".tipstaff/keys/user.key": "secret", "tipstaff.lock": "locked"} {
		if data, _ := os.ReadFile(filepath.Join(b.dir, name)); string(data) != want {
			t.Errorf("%s is now %q", name, data)
		}
	}
	must[object](b, "read_file", object{"path": "tipstaff.lock"})
	must[object](b, "write_file", object{"path": "innocent", "content": "replaces the link"})
}

func TestWithoutDeclarationsNothingIsTouched(t *testing.T) {
	b := oldBench(t, strings.NewReplacer(`roots: ["."]`, "", `programs: [sh, sleep, env, printf, cat]`, "").Replace(everything))
	b.write("a", "x")
	b.fails(tool.CodeToolError, "read_file", object{"path": "a"})
	b.fails(tool.CodeToolError, "read_file", object{"path": filepath.Join(b.dir, "a")})
	b.fails(tool.CodeToolError, "write_file", object{"path": "b", "content": ""})
	b.fails(tool.CodeToolError, "list_dir", object{"path": "."})
	b.fails(tool.CodeToolError, "exec", object{"argv": []string{"env"}})
	b.fails(tool.CodeToolError, "http_get", object{"url": "http://127.0.0.1:1/"})
	if _, err := os.Stat(filepath.Join(b.dir, "b")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a file was written")
	}
}

func TestSeveralRoots(t *testing.T) {
	b := newBench(t, strings.Replace(everything, `roots: ["."]`, `roots: [one, two]`, 1))
	b.write("one/a", "1")
	b.write("two/b", "2")
	if got := must[object](b, "read_file", object{"path": "a"}); got["text"] != "1" {
		t.Errorf("got %v", got)
	}
	b.fails(tool.CodeToolError, "read_file", object{"path": "b"})
	if got := must[object](b, "read_file", object{"path": filepath.Join(b.dir, "two", "b")}); got["text"] != "2" {
		t.Errorf("got %v", got)
	}
}

func TestWriteFile(t *testing.T) {
	b := newBench(t, everything)
	got := must[object](b, "write_file", object{"path": "x/y/z.txt", "content": "hello"})
	if got["size"] != 5.0 {
		t.Errorf("got %v", got)
	}
	read := func() string {
		data, err := os.ReadFile(filepath.Join(b.dir, "x/y/z.txt"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	first := got["sha256"]
	must[object](b, "write_file", object{"path": "x/y/z.txt", "content": "world", "if_sha256": first})
	if read() != "world" {
		t.Errorf("got %q", read())
	}
	// The same call again: its answer may have been lost.
	must[object](b, "write_file", object{"path": "x/y/z.txt", "content": "world", "if_sha256": first})
	contains(t, b.fails(tool.CodeToolError, "write_file", object{"path": "x/y/z.txt", "content": "other", "if_sha256": first}).Message, "if_sha256")
	b.fails(tool.CodeToolError, "write_file", object{"path": "new", "content": "", "if_sha256": first})
	b.fails(tool.CodeToolError, "write_file", object{"path": "x/y", "content": ""})
	b.fails(tool.CodeInvalidArguments, "write_file", object{"path": "new", "content": "", "if_sha256": "abc"})
	must[object](b, "write_file", object{"path": "x/y/z.txt", "content": ""})
	if read() != "" {
		t.Errorf("empty content became %q", read())
	}
	if err := os.Chmod(filepath.Join(b.dir, "x/y/z.txt"), 0o755); err != nil {
		t.Fatal(err)
	}
	must[object](b, "write_file", object{"path": "x/y/z.txt", "content": strings.Repeat("é", 1_000_000)})
	if info, _ := os.Stat(filepath.Join(b.dir, "x/y/z.txt")); info.Mode().Perm() != 0o755 || info.Size() != 2_000_000 {
		t.Errorf("got %v, %d bytes", info.Mode(), info.Size())
	}
	if left, _ := filepath.Glob(filepath.Join(b.dir, "x/y/.tipstaff-*")); left != nil {
		t.Errorf("left over: %v", left)
	}
}

func TestListDir(t *testing.T) {
	b := newBench(t, everything)
	b.write("d/b.txt", "12")
	b.write("d/a/c/deep", "")
	b.write("d/a.txt", "1")
	if err := os.Symlink("a", filepath.Join(b.dir, "d", "link")); err != nil {
		t.Fatal(err)
	}
	paths := func(args object) (list []string) {
		for _, e := range must[object](b, "list_dir", args)["entries"].([]any) {
			e := e.(object)
			list = append(list, fmt.Sprint(e["path"], " ", e["type"], " ", e["size"]))
		}
		return list
	}
	want := []string{"a dir <nil>", "a.txt file 1", "b.txt file 2", "link symlink <nil>"}
	if diff := cmp.Diff(want, paths(object{"path": "d"})); diff != "" {
		t.Error(diff)
	}
	want = []string{"a dir <nil>", "a/c dir <nil>", "a/c/deep file 0", "a.txt file 1", "b.txt file 2", "link symlink <nil>"}
	if diff := cmp.Diff(want, paths(object{"path": "d", "depth": 3})); diff != "" {
		t.Error(diff)
	}
	b.fails(tool.CodeToolError, "list_dir", object{"path": "d/a.txt"})
	b.fails(tool.CodeInvalidArguments, "list_dir", object{"path": "d", "depth": 0})
}

func TestListDirOfTenThousandEntries(t *testing.T) {
	b := newBench(t, everything)
	b.write("d/00000", "")
	for i := range 10_000 {
		if err := os.WriteFile(filepath.Join(b.dir, "d", fmt.Sprintf("%05d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := must[object](b, "list_dir", object{"path": "d"})
	if n := len(got["entries"].([]any)); n != 10_000 || got["truncated"] != false {
		t.Errorf("%d entries, truncated %v", n, got["truncated"])
	}
	b.write("d/99999", "")
	got = must[object](b, "list_dir", object{"path": "d"})
	entries := got["entries"].([]any)
	if n := len(entries); n != 10_000 || got["truncated"] != true || entries[n-1].(object)["path"] != "09999" {
		t.Errorf("%d entries, truncated %v", n, got["truncated"])
	}
}

func TestJSONQuery(t *testing.T) {
	b := newBench(t, everything)
	value := object{"items": []any{object{"n": 3, "open": true}, object{"n": 4.5, "open": false}}, "name": "é"}
	for expr, want := range map[string]string{
		`value.items.filter(i, i.open).map(i, i.n)`:   `[3]`,
		`value.items.size()`:                          `2`,
		`value.items.size() > 1 && value.name == "é"`: `true`,
		`value.items[0].n + 1.0`:                      `4`,
		`value.items[0].n < 4`:                        `true`,
		`{"a": value.name, "b": [1, 2.5, null]}`:      `{"a":"é","b":[1,2.5,null]}`,
		`value.name.upperAscii()`:                     `"é"`,
		`duration("90s")`:                             `"1m30s"`,
		`value`:                                       string(flow.JSON(value)),
	} {
		got := must[struct{ Result json.RawMessage }](b, "json_query", object{"value": value, "expr": expr})
		if string(got.Result) != want {
			t.Errorf("%s: got %s, want %s", expr, got.Result, want)
		}
	}
	for expr, why := range map[string]string{
		`value.`:        "cannot be compiled",
		`nothing`:       "undeclared",
		`value.missing`: "no such key",
		`{1: 2}`:        "text alone",
		`1.0 / 0.0`:     "JSON does not have",
		`type(value)`:   "JSON does not have",
		`[0,1,2,3,4,5,6,7,8,9].map(a, [0,1,2,3,4,5,6,7,8,9].map(b, [0,1,2,3,4,5,6,7,8,9].map(c, [0,1,2,3,4,5,6,7,8,9].map(d, [0,1,2,3,4,5,6,7,8,9].map(e, [0,1,2,3,4,5,6,7,8,9].map(f, [0,1,2,3,4,5,6,7,8,9].map(g, g)))))))`: "cost",
	} {
		contains(t, b.fails(tool.CodeToolError, "json_query", object{"value": value, "expr": expr}).Message, why)
	}
}

func TestSleepEndsAtOnceOnCancel(t *testing.T) {
	b := newBench(t, everything)
	if got := must[object](b, "sleep", object{"duration": "1ms"}); got["slept"] != "1ms" {
		t.Errorf("got %v", got)
	}
	b.fails(tool.CodeToolError, "sleep", object{"duration": "11m"})
	b.fails(tool.CodeToolError, "sleep", object{"duration": "soon"})
	b.fails(tool.CodeToolError, "sleep", object{"duration": "-1s"})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	value, err := b.try(ctx, b.attempt("sleep", object{"duration": "5m"}))
	wantCode(t, flow.CodeTimeout, value, err)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// webBench is a bench that may fetch from the given hosts.
func webBench(t *testing.T, hosts ...string) *bench {
	return newBench(t, strings.Replace(everything, "programs:", "hosts: "+string(flow.JSON(hosts))+"\n    programs:", 1))
}

func serveHTTP(t *testing.T, h http.HandlerFunc) (url, host string) {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL, strings.TrimPrefix(s.URL, "http://")
}

func TestHTTPGet(t *testing.T) {
	url, host := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/text":
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprintf(w, "hello %s", r.Header.Get("X-Token"))
		case "/again":
			http.Redirect(w, r, "/text", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/binary":
			w.Write([]byte{0, 1, 2})
		case "/big":
			w.Write(make([]byte, 2<<20))
		default:
			http.NotFound(w, r)
		}
	})
	b := webBench(t, host)
	for _, path := range []string{"/text", "/again"} {
		got := must[object](b, "http_get", object{"url": url + path, "headers": object{"X-Token": "t"}})
		if got["text"] != "hello t" || got["status"] != 200.0 || got["url"] != url+"/text" || got["content_type"] != "text/plain" {
			t.Errorf("%s: got %v", path, got)
		}
	}
	for path, why := range map[string]string{"/loop": "more than 10 times", "/binary": "not UTF-8", "/big": "max_bytes", "/none": "404"} {
		contains(t, b.fails(tool.CodeToolError, "http_get", object{"url": url + path}).Message, why)
	}
	e := b.fails(tool.CodeToolError, "http_get", object{"url": url + "/none"})
	contains(t, string(e.Detail), `"status":404`)
}

func TestHTTPGetStaysWithItsHosts(t *testing.T) {
	var mu sync.Mutex
	reached := 0
	other, otherHost := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		reached++
		fmt.Fprint(w, "other ", r.Header.Get("X-Token"))
	})
	_, port, _ := net.SplitHostPort(otherHost)
	url, host := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other, http.StatusTemporaryRedirect)
	})
	b := webBench(t, host, "example.com")
	for target, why := range map[string]string{
		other:                               "not among the hosts",
		url:                                 "not among the hosts", // redirects to an unlisted one
		"http://localhost:" + port:          "not among the hosts",
		"ftp://" + host:                     "not an http",
		"file:///etc/passwd":                "not an http",
		"http://user:pw@" + host:            "credentials",
		"http:///x":                         "no host",
		"http://example.com.evil.org/":      "not among the hosts",
		"http://example.com@" + otherHost:   "credentials",
		"http://[::ffff:127.0.0.1]:" + port: "not among the hosts",
	} {
		contains(t, b.fails(tool.CodeToolError, "http_get", object{"url": target}).Message, why)
	}
	if reached != 0 {
		t.Errorf("the unlisted host was reached %d times", reached)
	}
	// Both listed: the redirect is followed, and headers stay with the first host.
	got := must[object](webBench(t, host, otherHost), "http_get", object{"url": url, "headers": object{"X-Token": "secret"}})
	if got["text"] != "other " {
		t.Errorf("got %v", got["text"])
	}
}

func TestPrivateAddressMustBeListedLiterally(t *testing.T) {
	_, host := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "in") })
	_, port, _ := net.SplitHostPort(host)
	// A name that is listed and resolves to the loopback address.
	name, err := os.Hostname()
	if err != nil {
		t.Skip("this machine has no name")
	}
	name = strings.ToLower(name)
	if found, err := net.LookupHost(name); err != nil || len(found) == 0 {
		t.Skipf("the name %q of this machine does not resolve", name)
	}
	e := webBench(t, name).fails(tool.CodeToolError, "http_get", object{"url": "http://" + name + ":" + port})
	contains(t, e.Message, "private address")
	for _, listed := range []string{"127.0.0.1", host} {
		if got := must[object](webBench(t, listed), "http_get", object{"url": "http://" + host}); got["text"] != "in" {
			t.Errorf("%s: got %v", listed, got)
		}
	}
	if got := must[object](webBench(t, "localhost"), "http_get", object{"url": "http://localhost:" + port}); got["text"] != "in" {
		t.Errorf("localhost: got %v", got)
	}
}

func TestExec(t *testing.T) {
	b := newBench(t, everything)
	b.write("sub/x", "")
	got := must[object](b, "exec", object{"argv": []string{"sh", "-c", "cat; echo err >&2; pwd"}, "stdin": "in\n", "cwd": "sub"})
	want := object{"exit_code": 0.0, "stdout": "in\n" + filepath.Join(b.dir, "sub") + "\n", "stderr": "err\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	e := b.fails(tool.CodeToolError, "exec", object{"argv": []string{"sh", "-c", "echo out; echo why >&2; exit 3"}})
	if string(e.Detail) != `{"output":{"exit_code":3,"stdout":"out\n","stderr":"why\n"}}` || !e.Answered {
		t.Errorf("got %+v, %s", e, e.Detail)
	}
	contains(t, e.Message, "exit code 3: why")
	e = b.fails(tool.CodeToolError, "exec", object{"argv": []string{"sh", "-c", "kill -9 $$"}})
	contains(t, string(e.Detail), `"exit_code":137`)
	got = must[object](b, "exec", object{"argv": []string{"sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"}})
	if len(got["stdout"].(string)) != 1<<20 || got["truncated"] != true {
		t.Errorf("%d bytes, truncated %v", len(got["stdout"].(string)), got["truncated"])
	}
	got = must[object](b, "exec", object{"argv": []string{"sh", "-c", "true"}, "stdin": strings.Repeat("never read", 100_000)})
	if got["exit_code"] != 0.0 {
		t.Errorf("got %v", got)
	}
	got = must[object](b, "exec", object{"argv": []string{"printf", `\377`}})
	if got["stdout"] != "\uFFFD" {
		t.Errorf("got %q", got["stdout"])
	}
}

func TestExecRunsDeclaredProgramsAlone(t *testing.T) {
	b := newBench(t, everything)
	b.write("sh", "#!/bin/sh\necho hijacked")
	b.write("printf", "#!/bin/sh\necho hijacked")
	for _, name := range []string{"sh", "printf"} {
		if err := os.Chmod(filepath.Join(b.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, argv := range [][]string{{"ls"}, {"/bin/sh"}, {"./sh"}, {"../bin/sh"}, {"SH"}, {"sh "}, {"sh;ls"}, {""}} {
		contains(t, b.fails(tool.CodeToolError, "exec", object{"argv": argv}).Message, "not among the programs")
	}
	b.fails(tool.CodeInvalidArguments, "exec", object{"argv": []string{}})
	b.fails(tool.CodeToolError, "exec", object{"argv": []string{"printf", "a\x00b"}})
	// No shell reads the arguments, and the working folder is not searched.
	hostile := "$(touch pwned) `touch pwned` ; touch pwned | touch pwned && touch pwned > pwned * ~ \n 'x' \"y\" \\"
	if got := must[object](b, "exec", object{"argv": []string{"printf", "%s", hostile}}); got["stdout"] != hostile {
		t.Errorf("got %q", got["stdout"])
	}
	if _, err := os.Stat(filepath.Join(b.dir, "pwned")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a shell has read the arguments")
	}
}

func TestExecOfADeclaredPath(t *testing.T) {
	b := newBench(t, strings.Replace(everything, "programs: [", "programs: [./tools/hello, ", 1))
	b.write("tools/hello", "#!/bin/sh\necho hello")
	b.write("sub/x", "")
	if err := os.Chmod(filepath.Join(b.dir, "tools/hello"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := must[object](b, "exec", object{"argv": []string{"./tools/hello"}, "cwd": "sub"}); got["stdout"] != "hello\n" {
		t.Errorf("got %v", got)
	}
}

func TestExecSeesTheAllowedEnvironmentAlone(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "s")
	t.Setenv("LC_TIME", "C")
	t.Setenv("TZ", "UTC")
	t.Setenv("LD_PRELOAD", "")
	b := newBench(t, everything)
	got := must[object](b, "exec", object{"argv": []string{"env"}})
	env := map[string]string{}
	for line := range strings.Lines(got["stdout"].(string)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	for name := range env {
		allowed := slices.Contains([]string{"PATH", "HOME", "LANG", "TZ", "TMPDIR", "TIPSTAFF_RUN_ID", "TIPSTAFF_LAUNCH", "TIPSTAFF_SPAWN"}, name) || strings.HasPrefix(name, "LC_")
		if !allowed {
			t.Errorf("the child sees %s", name)
		}
	}
	if env["TIPSTAFF_RUN_ID"] != "run-1" || env["TIPSTAFF_LAUNCH"] != "launch-1" || env["LC_TIME"] != "C" || env["TZ"] != "UTC" || env["PATH"] == "" {
		t.Errorf("got %v", env)
	}
}

// stubborn starts a child that ignores SIGTERM, writes both pids and waits.
const stubborn = `trap '' TERM; (trap '' TERM; sleep 300 & wait; sleep 300) & echo $! > pids; echo $$ >> pids; echo ready; wait; sleep 300`

func (b *bench) pids() (list []int) {
	b.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, "pids"))
	if err != nil {
		b.Fatal(err)
	}
	for _, field := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, pid)
	}
	return list
}

// gone waits until none of the processes of a group is left.
func gone(t testing.TB, pids []int) {
	t.Helper()
	for _, pid := range pids {
		for deadline := time.Now().Add(5 * time.Second); alive(pid); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("process %d is still there", pid)
				return
			}
		}
	}
}

// alive reports whether a process exists and is no zombie that waits for a
// parent other than us.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !errors.Is(err, os.ErrNotExist)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// TestExecEndsItsGroup: at a timeout, a cancellation and a stop the whole group
// is ended; the first two are definite, the third stays in doubt.
func TestExecEndsItsGroup(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func() (context.Context, func())
		code string // "": in doubt
	}{
		{"timeout", func() (context.Context, func()) {
			ctx, cancel := context.WithTimeoutCause(context.Background(), 500*time.Millisecond, &flow.Error{Code: flow.CodeTimeout, Retry: true})
			return ctx, cancel
		}, flow.CodeTimeout},
		{"cancelled", func() (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(context.Background())
			return ctx, func() { cancel(flow.ErrCancelled) }
		}, tool.CodeKilled},
		{"stopped", func() (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(context.Background())
			return ctx, func() { cancel(&flow.Stop{Reason: "signal:TERM"}) }
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, everything)
			a := b.attempt("exec", object{"argv": []string{"sh", "-c", stubborn}})
			if !b.activity.Stops(a) {
				t.Error("exec does not say that it stops itself")
			}
			ctx, end := c.end()
			ready := make(chan struct{}, 100)
			a.Note = func(flow.Event) { ready <- struct{}{} }
			if c.name != "timeout" {
				go func() { <-ready; end() }()
			}
			began := time.Now()
			value, err := b.try(ctx, a)
			took := time.Since(began)
			end()
			gone(t, b.pids())
			if took < 2*time.Second || took > 5*time.Second {
				t.Errorf("it took %v: SIGKILL comes 2s after SIGTERM", took)
			}
			if c.code == "" {
				var e *flow.Error
				var stop *flow.Stop
				if !errors.As(err, &stop) || errors.As(err, &e) {
					t.Errorf("got %v; want the stop itself", err)
				}
				return
			}
			e := wantCode(t, c.code, value, err)
			if !e.Answered || e.NotSent || e.Retry {
				t.Errorf("got %+v", e)
			}
			contains(t, string(e.Detail), `"stdout":"ready\n"`)
		})
	}
}

func TestExecLeavesNoProcess(t *testing.T) {
	b := newBench(t, everything)
	began := time.Now()
	got := must[object](b, "exec", object{"argv": []string{"sh", "-c", "sleep 300 & echo $! > pids; echo done"}})
	if got["stdout"] != "done\n" {
		t.Errorf("got %v", got)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it waited %v for a process in the background", took)
	}
	gone(t, b.pids())
}

func TestExecDoesNotOutliveItsConnection(t *testing.T) {
	b := newBench(t, everything)
	a := b.attempt("exec", object{"argv": []string{"sh", "-c", stubborn}})
	ready := make(chan struct{}, 100)
	a.Note = func(flow.Event) { ready <- struct{}{} }
	ended := make(chan error, 1)
	go func() {
		_, err := b.try(context.Background(), a)
		ended <- err
	}()
	<-ready
	b.manager.Close()
	for _, pid := range b.pids() {
		if alive(pid) {
			t.Errorf("process %d is there although the manager is closed", pid)
		}
	}
	e := wantCode(t, tool.CodeUnavailable, nil, <-ended)
	if e.NotSent || e.Answered {
		t.Errorf("what became of it is not known: %+v", e)
	}
}

func TestOnlyExecStopsItself(t *testing.T) {
	b := newBench(t, everything)
	for _, name := range builtin.Tools() {
		if got := b.activity.Stops(flow.Attempt{Input: flow.JSON(tool.Input{URI: uriOf(name)})}); got != (name == "exec") {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestExecTellsWhatItPrints: the notes of each channel, put together, are the
// output; each piece but the last is large or late; the last is final.
func TestExecTellsWhatItPrints(t *testing.T) {
	b := newBench(t, everything)
	a := b.attempt("exec", object{"argv": []string{"sh", "-c", "i=0; while [ $i -lt 500 ]; do echo line $i é; i=$((i+1)); done; echo oops >&2"}})
	var n notes
	a.Note = n.note
	value, err := b.try(context.Background(), a)
	if err != nil {
		t.Fatal(err)
	}
	var out struct{ Stdout, Stderr string }
	if err := json.Unmarshal(value, &out); err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	count := map[string]int{}
	final := map[string]bool{}
	for _, o := range n.list {
		told[o.Channel] += o.Chunk
		count[o.Channel]++
		if o.N != count[o.Channel] || final[o.Channel] {
			t.Errorf("piece %d of %s came as number %d, after the final one: %v", o.N, o.Channel, count[o.Channel], final[o.Channel])
		}
		final[o.Channel] = o.Final
	}
	if told["stdout"] != out.Stdout || told["stderr"] != out.Stderr || out.Stderr != "oops\n" {
		t.Errorf("%d of %d bytes were told, %q", len(told["stdout"]), len(out.Stdout), told["stderr"])
	}
	if !final["stdout"] || !final["stderr"] {
		t.Error("a channel has no final piece")
	}
	if most := len(out.Stdout)/1024 + 2; count["stdout"] > most {
		t.Errorf("%d pieces for %d bytes", count["stdout"], len(out.Stdout))
	}
}

func TestConcurrentCalls(t *testing.T) {
	b := newBench(t, everything)
	b.write("a", "text")
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			name, args := "read_file", object{"path": "a"}
			switch i % 4 {
			case 1:
				name, args = "write_file", object{"path": "same", "content": strings.Repeat("x", i)}
			case 2:
				name, args = "json_query", object{"value": i, "expr": "value + 1.0"}
			case 3:
				name, args = "exec", object{"argv": []string{"printf", "%s", strconv.Itoa(i)}}
			}
			if _, err := b.call(name, args); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
}

func BenchmarkCall(b *testing.B) {
	bench := newBench(b, everything)
	a := bench.attempt("json_query", object{"value": object{"a": 1}, "expr": "value.a"})
	bench.write("a", "text")
	read := bench.attempt("read_file", object{"path": "a"})
	for name, a := range map[string]flow.Attempt{"json_query": a, "read_file": read} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bench.try(context.Background(), a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkGate(b *testing.B) {
	bench := newBench(b, everything)
	call := tool.Request{URI: uriOf("read_file"), Args: json.RawMessage(`{"path":"a"}`)}
	b.ReportAllocs()
	for b.Loop() {
		if v := bench.gate.Ask(call); v.Err != nil {
			b.Fatal(v.Err)
		}
	}
}
