package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// serving is a daemon of a workspace, and a folder elsewhere whose commands are about
// its runs.
type serving struct {
	*workspace            // of the daemon
	away       *workspace // of whoever uses it: it has no store
	addr       string
	httpAddr   string
	tokenFile  string
	flags      []string
	daemon     *cmdtest.Process
}

func serve(t *testing.T, archives ...string) *serving { return serveWith(t, nil, archives...) }

// serveWith serves with further flags.
func serveWith(t *testing.T, flags []string, archives ...string) *serving {
	s := &serving{workspace: newWorkspace(t, archives...), away: newWorkspace(t, archives...), addr: "127.0.0.1:0", flags: flags}
	if err := os.Remove(s.away.Path("tipstaff.yaml")); err != nil { // what is there is the server's
		t.Fatal(err)
	}
	s.begin()
	s.away.Env = append(s.away.Env, "NO_COLOR=1", "TIPSTAFF_SERVER="+s.addr, "TIPSTAFF_TOKEN="+s.token())
	return s
}

// token is that of the daemon.
func (s *serving) token() string {
	s.Helper()
	text, err := os.ReadFile(s.tokenFile)
	s.Check(err)
	return strings.TrimSpace(string(text))
}

// begin starts the daemon, at the address it had if it had one.
func (s *serving) begin() {
	s.Helper()
	s.daemon = s.Prepare(append([]string{"serve", "--grpc-addr", s.addr, "--addr", "127.0.0.1:0", "--json"}, s.flags...)...)
	out, err := s.daemon.Cmd.StdoutPipe()
	s.Check(err)
	s.daemon.Begin()
	var told struct {
		Addr string `json:"grpc_addr"`
		HTTP string `json:"addr"`
		File string `json:"token_file"`
	}
	s.Check(json.NewDecoder(out).Decode(&told))
	s.addr, s.httpAddr, s.tokenFile = told.Addr, told.HTTP, told.File
}

const gatedWork = `-- plan.yaml --
kind: plan
version: 1
name: work
root:
  kind: sequential
  children:
    - {id: ok, kind: gate, question: "Go on?"}
    - {id: do, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo done >> effects"]}}
-- long.yaml --
kind: plan
version: 1
root: {id: long, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 5m}}
`

// A daemon listens on a Unix socket that only its user can open, and takes the place of
// one that was killed; nobody takes the place of one that lives, or of another file.
func TestServingOnASocket(t *testing.T) {
	t.Parallel()
	s := &serving{workspace: newWorkspace(t, manifest, gatedWork), addr: "unix:d.sock"}
	s.begin()
	if s.addr != "unix:"+s.Path("d.sock") {
		t.Errorf("it listens at %s", s.addr)
	}
	info, err := os.Lstat(s.Path("d.sock"))
	if err != nil || info.Mode().Type() != os.ModeSocket || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	s.Must(4, "run", "plan.yaml", "--server", s.addr)
	s.Must(0, "ls", "--server", "unix://"+s.Path("d.sock")).Says(t, "awaiting_decision")
	s.Env = append(s.Env, "TIPSTAFF_TOKEN=of-somebody-else-entirely")
	if out := s.Must(3, "ls", "--server", s.addr).Err; !strings.Contains(out, "the token is not known here") {
		t.Errorf("without a token it is answered %q", out)
	}
	s.Env = s.Env[:len(s.Env)-1]
	if out := s.Must(2, "serve", "--grpc-addr", s.addr, "--addr", "127.0.0.1:0").Err; !strings.Contains(out, "somebody answers at") {
		t.Errorf("a second daemon says %q", out)
	}
	s.daemon.Kill()
	s.begin() // where the other has left its socket
	s.Must(0, "ls", "--server", s.addr).Says(t, "awaiting_decision")
	s.Write("file", "of somebody")
	if out := s.Must(2, "serve", "--grpc-addr", "unix:file", "--addr", "127.0.0.1:0").Err; !strings.Contains(out, "is not a socket") {
		t.Errorf("a daemon says %q", out)
	}
	if text, err := os.ReadFile(s.Path("file")); err != nil || string(text) != "of somebody" {
		t.Errorf("the file has %q, %v", text, err)
	}
}

// Every command that is about runs works on those of a server as it does on its own.
func TestCommandsAtAServer(t *testing.T) {
	t.Parallel()
	s := serve(t, manifest, gatedWork)
	w := s.away
	waiting := w.Must(4, "run", "plan.yaml")
	for _, text := range []string{"root/ok  waiting  Go on?", "state  executing (parked)"} {
		if !strings.Contains(waiting.Out, text) {
			t.Errorf("run says %q, want %q", waiting.Out, text)
		}
	}
	for args, text := range map[string]string{"ls": "awaiting_decision", "show @": "root/ok", "events @": "policy.gate", "decide": "Go on?", "events @ --json": `"kind":"intent.draft"`,
		"show @ --metrics": "total", "show @ --evidence decisions": "root/ok", "show @ --diagnose": "inspect_only, daemon_run"} {
		if out := w.Must(0, strings.Fields(args)...).Out; !strings.Contains(out, text) {
			t.Errorf("%s says %q, want %q", args, out, text)
		}
	}
	w.Must(4, "watch", "@")
	had := w.Env // the flag serves as well as the variable
	w.Env = slices.DeleteFunc(slices.Clone(had), func(v string) bool { return strings.HasPrefix(v, "TIPSTAFF_SERVER=") })
	if out := w.Must(0, "ls", "--server", s.addr).Out; !strings.Contains(out, "awaiting_decision") {
		t.Errorf("ls --server says %q", out)
	}
	w.Env = had
	w.Must(0, "decide", "@", "root/ok", "approve")
	w.Must(3, "decide", "@", "root/ok", "deny")
	if out := w.Must(0, "resume", "@").Out; !strings.Contains(out, "completed (success)") {
		t.Errorf("resume says %q", out)
	}
	w.Must(0, "watch", "@")
	w.Must(0, "verify", "@")
	if out := w.Must(0, "replay", "@").Out; !strings.Contains(out, "outcome: success") || !strings.Contains(out, "effect.finished") {
		t.Errorf("replay says %q", out)
	}
	w.Must(0, "export", "@", filepath.Join(w.Dir, "proof"))
	w.Must(0, "verify", "./proof", "--key", s.Path(".tipstaff", "keys")).Says(t, "integrity: ok", "conformance: ok")
	if got := s.effects(); got != "done" {
		t.Errorf("effects %q", got)
	}
	long := w.Start("run", "long.yaml")
	w.Until("the call", func() bool { return strings.Contains(w.Must(0, "ls").Out, " running ") || !long.Running() })
	w.Must(0, "cancel", "@", "--reason", "enough")
	if r := long.Wait(); r.Code != 8 {
		t.Errorf("whoever followed the cancelled run ends with %d\n%s", r.Code, r.Err)
	}
	if _, err := os.Stat(w.Path(".tipstaff")); !os.IsNotExist(err) {
		t.Errorf("the folder of whoever uses the server has a store: %v", err)
	}
	for args, text := range map[string]string{
		"tools list --server " + s.addr: "works on a local workspace",
		"chat hi --policy p.yaml":       "--policy cannot be used with --server",
		"ls --server nowhere":           "is not the address of a server",
		"ls --server 192.0.2.1:50051":   "would be sent in plain text",
		"run --host x plan.yaml":        "",
		"verify @ --anchor anchor.txt":  "lie on this machine",
	} {
		r := w.Run(strings.Fields(args)...)
		if r.Code != 2 && r.Code != 3 || !strings.Contains(r.Err, text) {
			t.Errorf("%s ends with %d and says %q, want %q", args, r.Code, r.Err, text)
		}
	}
	w.Env = append(w.Env, "TIPSTAFF_TOKEN=of-somebody-else-entirely")
	if r := w.Run("ls"); r.Code != 3 || !strings.Contains(r.Err, "the token is not known here") {
		t.Errorf("a wrong token: %d %s", r.Code, r.Err)
	}
}

// The live view and its questions are those of a run at a server, too: answered,
// declined, left.
func TestQuestionsOfAServer(t *testing.T) {
	t.Parallel()
	s := serve(t, manifest, gatedWork)
	for keys, want := range map[string]struct {
		code  int
		state string
	}{"approve\n": {0, "completed"}, "deny\n": {1, "failed"}, "\x04": {4, "awaiting_decision"}, "\x03": {130, "running"}} {
		term := s.away.atTerminal("run", "plan.yaml")
		term.asked("approve, deny? ", 1)
		term.types(keys)
		r := term.Wait()
		<-term.dark
		if r.Code != want.code {
			t.Errorf("%q: want exit code %d, got %d\n%s", keys, want.code, r.Code, term.shown())
		}
		var run struct{ Status string }
		s.Check(json.Unmarshal([]byte(s.away.Must(0, "show", "@", "--json").Out), &run))
		if run.Status != want.state {
			t.Errorf("%q leaves it %s, want %s", keys, run.Status, want.state)
		}
		if !strings.Contains(term.shown(), "ok  Go on?") {
			t.Errorf("there was no tree:\n%s", term.shown())
		}
	}
}

// Whoever only watches sees the same tree, and is asked nothing; a run that was left is
// resumed with its questions.
func TestWatchedAndResumedAtAServer(t *testing.T) {
	t.Parallel()
	s := serve(t, manifest, gatedWork)
	s.away.Must(4, "run", "plan.yaml")
	resumed := s.away.atTerminal("resume", "@")
	resumed.asked("approve, deny? ", 1)
	watching := s.away.atTerminal("watch", "@")
	s.Until("the tree", func() bool { return strings.Contains(watching.shown(), "Go on?") || !watching.Running() })
	resumed.types("approve\n")
	for name, term := range map[string]*terminal{"resume": resumed, "watch": watching} {
		r := term.Wait()
		<-term.dark
		if r.Code != 0 || !strings.Contains(term.shown(), "completed") {
			t.Errorf("%s ends with %d:\n%s", name, r.Code, term.shown())
		}
	}
	if strings.Contains(watching.shown(), "approve, deny? ") {
		t.Errorf("whoever watches is asked:\n%s", watching.shown())
	}
}

// A daemon that is killed and comes back loses none of those who follow its runs.
func TestFollowersOutliveTheirServer(t *testing.T) {
	t.Parallel()
	s := serve(t, manifest, strings.ReplaceAll(gatedWork, "5m", "8s"))
	p := s.away.Start("run", "long.yaml")
	s.Until("the drive", func() bool {
		return strings.Contains(s.away.Run("events", "@", "--json").Out, "run.started") || !p.Running()
	})
	if !s.daemon.Kill() || !p.Running() {
		t.Fatal("the run had ended before")
	}
	s.begin()
	if r := p.Wait(); r.Code != 0 || !strings.Contains(r.Out, "run  resumed") || !strings.Contains(r.Out, "completed (success)") {
		t.Errorf("exit code %d\n%s\n%s", r.Code, r.Out, r.Err)
	}
}

// Of one that does not come back nobody says how its run has ended: another server may drive
// it on.
func TestTheServerOfAFollowerIsGone(t *testing.T) {
	t.Parallel()
	s := serve(t, manifest, gatedWork)
	p := s.away.Start("run", "long.yaml")
	s.Until("the drive", func() bool {
		return strings.Contains(s.away.Run("events", "@", "--json").Out, "run.started") || !p.Running()
	})
	if !s.daemon.Kill() || !p.Running() {
		t.Fatal("the run had ended before")
	}
	r := p.Wait()
	if r.Code != 3 || strings.Contains(r.Out, "interrupted") || !strings.Contains(r.Err, "the run is left to the server; to follow it:\n  tipstaff watch ") || !strings.Contains(r.Err, "cannot be reached") {
		t.Errorf("exit code %d\n%s\n%s", r.Code, r.Out, r.Err)
	}
}

// Over TLS a server is known by its certificate, and nothing is said to another.
func TestServerBehindTLS(t *testing.T) {
	t.Parallel()
	cert, key := selfSigned(t)
	s := serveWith(t, []string{"--tls-cert", cert, "--tls-key", key}, manifest, gatedWork)
	s.away.Env = append(s.away.Env, "TIPSTAFF_SERVER=grpcs://"+s.addr)
	if r := s.away.Run("ls"); r.Code != 3 || !strings.Contains(r.Err, "TIPSTAFF_SERVER_CA") {
		t.Errorf("a certificate that nobody vouches for: %v", r)
	}
	s.away.Env = append(s.away.Env, "TIPSTAFF_SERVER_CA="+cert)
	s.away.Must(0, "ls")
	s.away.Must(4, "run", "plan.yaml")
	s.away.Env = append(s.away.Env, "TIPSTAFF_SERVER="+s.addr)
	if r := s.away.Run("ls"); r.Code == 0 {
		t.Errorf("plain text is spoken with it: %v", r)
	}
	s.away.Env = append(s.away.Env, "TIPSTAFF_SERVER=grpcs://"+s.addr, "TIPSTAFF_SERVER_CA="+key)
	s.away.Must(2, "ls").Says(t, "holds no certificate")
}

// selfSigned makes a certificate for this machine and its key.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	signed, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestChatAtAServer(t *testing.T) {
	t.Parallel()
	s := serve(t, talking)
	term := s.away.atTerminal("chat")
	term.asked("/help", 1)
	term.types("twice\r")
	term.asked("You said something.", 1)
	term.asked("1 step", 1)
	term.types("twice\r")
	term.asked("Now it is the second time.", 1)
	term.asked("1 step", 2)
	term.saysThenAsked("act\r")
	term.types("y\r")
	term.asked("It is done.", 1)
	term.asked("2 steps", 1)
	term.types("\x04")
	term.ended(0)
	if got := s.effects(); got != "acted" {
		t.Errorf("effects %q", got)
	}
	if list := s.away.Must(0, "chat", "--list").Out; !strings.Contains(list, "  3      completed  default  scripted  ") || !strings.HasSuffix(list, "  It is done.\n") {
		t.Errorf("the session is not listed:\n%s", list)
	}
	if said := s.away.Must(0, "chat", "--continue", "hello").Err; !strings.Contains(said, ", turn 4, server "+s.addr) {
		t.Errorf("it is another session:\n%s", said)
	}
	if said := s.away.Must(0, "show", "@", "--transcript").Out; strings.Count(said, "› ") != 4 || !strings.Contains(said, "allow by terminal") {
		t.Errorf("the conversation is not told:\n%s", said)
	}
}
