package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// seer is a model that sees images, behind a loopback address. It calls a tool, and
// then says what it was shown.
type seer struct {
	*httptest.Server

	mu       sync.Mutex
	calls    []string // the tool of each answer, with its arguments in turn; then it ends
	requests []string
}

func newSeer(t testing.TB, calls ...string) *seer {
	s := &seer{calls: calls}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *seer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var b bytes.Buffer
	if _, err := b.ReadFrom(r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, b.String())
	calls := s.calls
	s.mu.Unlock()
	delta, reason := `{"content":"I see it."}`, "stop"
	if step := strings.Count(b.String(), `"role":"assistant"`); 2*step < len(calls) {
		delta = fmt.Sprintf(`{"tool_calls":[{"index":0,"id":"call_%d","type":"function","function":{"name":%q,"arguments":%q}}]}`, step, calls[2*step], calls[2*step+1])
		reason = "tool_calls"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"seer","choices":[{"index":0,"delta":%s}]}`+"\n\n", delta)
	fmt.Fprintf(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"seer","choices":[{"index":0,"delta":{},"finish_reason":%q}]}`+"\n\ndata: [DONE]\n\n", reason)
}

var dataURL = regexp.MustCompile(`"data:image/png;base64,([^"]+)"`)

// shown are the images of the last request.
func (s *seer) shown(t testing.TB) (images [][]byte) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, found := range dataURL.FindAllStringSubmatch(s.requests[len(s.requests)-1], -1) {
		data, err := base64.StdEncoding.DecodeString(found[1])
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, data)
	}
	return images
}

// models is the part of a manifest, and the table, by which agents ask the seer.
func (s *seer) models(images bool, tools string) string {
	return fmt.Sprintf(`models: {seer: {provider: openai-chat, model: seer, base_url: %q}}
models_file: table.yaml
agents: {default: {model: seer, tools: [%s]}}
policy: {rules: [{id: all, tool: "*/*", do: allow}]}
-- table.yaml --
version: 1
date: "2026-11-15"
models: {seer: {context_window: 100000, max_output: 4096, images: %v, structured_output: false, sampling: true}}
`, s.URL+"/v1", tools, images)
}

const tinyImageTool = "mcp://everything/get-tiny-image@2.0.0"

// The image of a result is a blob of the run: the model is shown its bytes, in this turn
// and in the next of the session, and what is exported has it.
func TestImageIsShownAndKept(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	s := newSeer(t, "everything__get-tiny-image", "{}")
	w.declare("command: " + w.command(everything))
	w.files("-- tipstaff.yaml --\n" + w.Read("tipstaff.yaml") + s.models(true, tinyImageTool)).pin()
	r := w.Must(0, "chat", "Show me the image.", "--json")
	images := s.shown(t)
	if len(images) != 1 {
		t.Fatalf("the model was shown %d images", len(images))
	}
	digest := w.isArtifact(images[0])
	session := regexp.MustCompile(`"session":"([^"]+)"`).FindStringSubmatch(r.Out)
	if session == nil {
		t.Fatalf("no session\n%v", r)
	}
	s.mu.Lock()
	s.calls = nil
	s.mu.Unlock()
	w.Must(0, "chat", "What was on it?", "--session", session[1])
	if again := s.shown(t); len(again) != 1 || !bytes.Equal(again[0], images[0]) {
		t.Errorf("the next turn was shown %d images", len(again))
	}
	if w.isArtifact(images[0]) != digest {
		t.Error("the next turn keeps another image")
	}
}

// A model that sees no images is told of one.
func TestImageIsToldOf(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	s := newSeer(t, "everything__get-tiny-image", "{}")
	w.declare("command: " + w.command(everything))
	w.files("-- tipstaff.yaml --\n" + w.Read("tipstaff.yaml") + s.models(false, tinyImageTool)).pin()
	w.Must(0, "chat", "Show me the image.")
	if n := len(s.shown(t)); n != 0 {
		t.Errorf("it was shown %d images", n)
	}
	line := regexp.MustCompile(`\[image/png, (\d+) bytes, (sha256:[0-9a-f]{64})\]`).FindStringSubmatch(s.requests[len(s.requests)-1])
	if line == nil {
		t.Fatalf("nothing is said of the image: %s", s.requests[len(s.requests)-1])
	}
	w.Must(0, "show", "@", "--artifact", line[2], "-o", w.Path("image.png"))
	if data := w.Read("image.png"); fmt.Sprint(len(data)) != line[1] {
		t.Errorf("it has %d bytes, not %s", len(data), line[1])
	}
}

// isArtifact checks that an image is among the artifacts of the newest run, and in what
// is exported of it, which verifies and replays.
func (w *workspace) isArtifact(image []byte) (digest string) {
	w.Helper()
	sum := sha256.Sum256(image)
	digest = fmt.Sprintf("%x", sum)
	w.Must(0, "show", "@", "--artifact", "sha256:"+digest, "-o", w.Path("fetched.png"))
	if w.Read("fetched.png") != string(image) {
		w.Error("what show writes is another image")
	}
	if r := w.Must(0, "show", "@", "--artifact", digest); r.Out != string(image) {
		w.Error("what show prints is another image")
	}
	w.Must(0, "verify", "@")
	w.Must(0, "replay", "@")
	dir := w.Path("export")
	w.Check(os.RemoveAll(dir))
	w.Must(0, "export", "@", dir)
	if got := w.Read(filepath.Join("export", "blobs", digest)); got != string(image) {
		w.Error("what is exported is another image")
	}
	w.Must(0, "verify", dir)
	w.Check(os.Remove(filepath.Join(dir, "blobs", digest)))
	w.Must(6, "verify", dir)
	return digest
}

// What a plan is told of a link, and of a resource that comes with a result, is there.
func (w *workspace) mediaAreKept(links, reference content) {
	w.Helper()
	for i, b := range links.Blobs {
		if b.Type != "resource_link" || b.Name == "" || !strings.Contains(b.URI, "://") {
			w.Errorf("link %d is %+v", i, b)
		}
	}
	b := reference.Blobs[0]
	if !strings.Contains(b.URI, "/7") {
		w.Errorf("the resource is %+v", b)
	}
	sum := sha256.Sum256([]byte(w.Must(0, "show", "@", "--artifact", b.Digest).Out))
	if fmt.Sprintf("sha256:%x", sum) != b.Digest {
		w.Errorf("the bytes of the resource have the digest %x", sum)
	}
}

// A screenshot that a browser takes is kept by a plan, and seen by a model.
func TestScreenshot(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not in PATH: no screenshot can be taken")
	}
	page := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(rw, `<!doctype html><title>Red</title><body style="background: red">`)
	}))
	t.Cleanup(page.Close)
	s := newSeer(t, "browser__browser_navigate", fmt.Sprintf(`{"url":%q}`, page.URL), "browser__browser_take_screenshot", `{"type":"png","scale":"css"}`)
	version := struct{ Version string }{}
	manifest, err := os.ReadFile(filepath.Join(w.folder("playwright"), "package.json"))
	w.Check(err)
	w.Check(json.Unmarshal(manifest, &version))
	navigate, shoot := "mcp://browser/browser_navigate@"+version.Version, "mcp://browser/browser_take_screenshot@"+version.Version
	command := fmt.Sprintf(`[%q, %q, --headless, --no-sandbox, --isolated, --executable-path, %q]`, w.node, filepath.Join(w.folder(playwright), "cli.js"), browser)
	w.files(`-- tipstaff.yaml --
allowed_effects: [read, idempotent, once]
servers:
  browser: {command: ` + command + `, timeout: 60s, tools: {browser_navigate: {}, browser_take_screenshot: {}}}
` + s.models(true, navigate+", "+shoot) + `-- shot.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: go, kind: tool_call, tool: "` + navigate + `", args: {url: "` + page.URL + `"}}
    - {id: shot, kind: tool_call, tool: "` + shoot + `", args: {type: png, scale: css}}
outputs: {shot: "${shot.output}"}
`).pin()
	var out struct{ Shot content }
	w.outputs("shot.yaml", &out)
	if len(out.Shot.Blobs) != 1 || out.Shot.Blobs[0].MimeType != "image/png" {
		t.Fatalf("the screenshot is %+v", out.Shot)
	}
	image := w.Must(0, "show", "@", "--artifact", out.Shot.Blobs[0].Digest).Out
	w.isArtifact([]byte(image))
	if _, err := png.Decode(strings.NewReader(image)); err != nil {
		t.Errorf("it is no PNG: %v", err)
	}
	w.Must(0, "chat", "What colour is the page?")
	images := s.shown(t)
	if len(images) != 1 {
		t.Fatalf("the model was shown %d images", len(images))
	}
	w.isArtifact(images[0])
	shown, err := png.Decode(bytes.NewReader(images[0]))
	w.Check(err)
	if r, g, b, _ := shown.At(5, 5).RGBA(); r != 0xffff || g != 0 || b != 0 {
		t.Errorf("the page that the model sees is not red: %x %x %x", r, g, b)
	}
}
