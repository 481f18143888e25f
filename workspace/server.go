package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

// Server is what the manifest says of one server.
type Server struct {
	Tools         Tools             `json:"tools" doc:""`
	Timeout       document.Duration `json:"-" doc:"timeout,min=1ms,max=24h"`     // of tools without their own; 0: DefaultTimeout
	StartTimeout  document.Duration `json:"-" doc:"start_timeout,min=1s,max=1h"` // until it answers for the first time; 0: DefaultStartTimeout
	MaxConcurrent int               `json:"max_concurrent" doc:",min=1,max=64"`  // calls at once
	Local         bool              `json:"local,omitempty" doc:""`              // what it keeps is on its machine: runs are driven where they were started

	// Of a server that is a program of its own, spoken to over its input and output.
	Command       []string          `json:"command,omitempty" doc:""`
	Env           map[string]string `json:"env,omitempty"`                   // may hold $env:NAME references
	InheritEnv    []string          `json:"inherit_env,omitempty" doc:""`    // names passed on as they are set here
	Package       string            `json:"package,omitempty" doc:""`        // the file or folder that digests are of; "": the program, and for the lock what lies beside what Command names
	PackageDigest string            `json:"package_digest,omitempty" doc:""` // "": not checked
	Ignore        []string          `json:"ignore,omitempty" doc:""`         // patterns of files of the workspace that have no digest in the lock; of builtin, for its programs

	// Of a server that is reached over HTTP.
	URL     string            `json:"url,omitempty" doc:""`
	Headers map[string]string `json:"headers,omitempty"` // may hold $env:NAME references

	// Of builtin alone. Nothing listed means nothing allowed.
	Roots    []string `json:"roots" doc:""`              // folders that files are read and written in
	Hosts    []string `json:"hosts" doc:""`              // host or host:port that may be fetched from
	Programs []string `json:"programs" doc:""`           // names or paths of programs that may be run
	Writable []string `json:"writable,omitempty" doc:""` // patterns of files that write_file may write; none: all that is not protected
}

// Tools are those that are declared of a server, by name.
type Tools map[string]Tool

// Tool is what the manifest says of one tool.
type Tool struct {
	Effect    flow.Class    `json:"effect,omitempty" doc:",in=read|idempotent|once"` // "": what the tool's hints state
	Timeout   time.Duration `json:"timeout,omitempty" doc:",min=1ms,max=24h"`        // 0: the server's
	MaxResult int64         `json:"max_result,omitempty"`                            // bytes; 0: DefaultMaxResult
}

// What a manifest may ask for at most.
const (
	MaxConcurrent = 64 // calls of one server at once, as the tag of Server says
	MaxResult     = 16 << 20
)

// Fields that belong to one kind of server alone.
var (
	ofBuiltin = []string{"roots", "hosts", "programs", "writable"}
	ofCommand = []string{"command", "env", "inherit_env", "package", "package_digest", "ignore"}
	ofURL     = []string{"url", "headers"}
	ofOthers  = []string{"start_timeout"} // than builtin
)

// Names that calls of workers have in the place of a server's: a worker's channel, and
// the CLI's own tools.
const (
	channelServer = "tipstaff"
	nativePrefix  = "worker-"
)

// CheckKey checks the name of a server.
func (s *Server) CheckKey(name string) error {
	if !tipstaff.IsServerName(name) {
		return fmt.Errorf("%s cannot name a server: 1 to 32 of a-z, 0-9, _ and -, not beginning with _ or -", tipstaff.Quote(name, 140))
	}
	if name == channelServer || strings.HasPrefix(name, nativePrefix) {
		return fmt.Errorf("%s cannot name a server: the names %s and %s… stand for what workers bring along", tipstaff.Quote(name, 140), channelServer, nativePrefix)
	}
	return nil
}

// CheckDocument reads what a tag cannot say, and compares what goes together.
func (s *Server) CheckDocument(f *document.Fields) {
	s.MaxConcurrent = cmp.Or(s.MaxConcurrent, DefaultMaxConcurrent)
	s.Env, s.Headers = values(f, "env", checkVariable), values(f, "headers", checkHeader)
	checkEach(f, "roots", checkRoot)
	checkEach(f, "hosts", checkHost)
	checkEach(f, "programs", checkProgram)
	checkEach(f, "writable", checkPattern)
	checkEach(f, "ignore", checkPattern)
	checkEach(f, "inherit_env", checkVariable)
	check(f, "package", checkRoot)
	check(f, "package_digest", checkDigest)
	check(f, "url", checkURL)
	if v := f.Get("url"); v != nil {
		urlCredential(f, "url", v)
	}
	s.checkCommand(f)
	if f.Name == builtin.Name {
		foreign(f, slices.Concat(ofCommand[:len(ofCommand)-1], ofURL, ofOthers), builtin.Name+" is inside this binary: it has no %s")
	} else {
		foreign(f, ofBuiltin, "%s belongs to the server "+builtin.Name+" alone")
		reachable(f)
	}
	if f.Name == builtin.Name { // of others it may yet have to be found out: tools list --live
		needs(f, "tools", ": a tool that is not listed cannot be called")
	}
	checkTools(f)
}

// foreign reports fields of another kind of server.
func foreign(f *document.Fields, names []string, format string) {
	for _, name := range names {
		if v := f.Value.Get(name); v != nil {
			f.Report(document.CodeFieldUnknown, v.At, name, format, name)
		}
	}
}

// reachable: a server is either started or connected to, and has only the fields
// that go with it.
func reachable(f *document.Fields) {
	given := func(name string) bool { return f.Value.Get(name) != nil }
	stray := ""
	for _, field := range slices.Concat(ofCommand[1:], ofURL[1:]) {
		with := "command"
		if slices.Contains(ofURL, field) {
			with = "url"
		}
		if given(field) && !given(with) {
			stray = fmt.Sprintf("%s goes with %s", field, with)
		}
	}
	report := func(code, format string) { f.Problems.Add(code, f.Value.At, f.Path, format, f.Path) }
	switch {
	case given("command") && given("url"):
		report(document.CodeRange, "%s has both command and url: a server is either started or connected to")
	case !given("command") && !given("url"):
		report(document.CodeFieldMissing, "%s needs command, a list, or url")
	case stray != "":
		report(document.CodeRange, "%s: "+stray)
	}
}

// checkTools checks the names of tools.
func checkTools(f *document.Fields) {
	v := f.Value.Get("tools")
	if v == nil || v.Kind != document.Object {
		return
	}
	if len(v.Members) == 0 && f.Name == builtin.Name {
		f.Report(document.CodeFieldMissing, v.At, "tools", "%s lists no tool: a tool that is not listed cannot be called", f.PathOf("tools"))
	}
	for _, m := range v.Members {
		switch known := builtin.Tools(); {
		case f.Name == builtin.Name && !slices.Contains(known, m.Key):
			f.Report(CodeTool, m.At, "tools."+m.Key, "%s has no tool %q%s", builtin.Name, m.Key, tipstaff.Suggest(m.Key, known))
		case !tipstaff.IsToolName(m.Key):
			f.Report(CodeTool, m.At, "tools."+m.Key, "%s cannot name a tool: 1 to 128 of A-Z, a-z, 0-9, _, . and -", tipstaff.Quote(m.Key, 140))
		}
	}
}

// ReadDocument: "read_file:" alone declares the tool with its own hints.
func (t *Tool) ReadDocument(f *document.Fields, name string, v *document.Value) {
	if v.Kind == document.Null {
		return
	}
	f.Object(name, func(f *document.Fields) {
		f.Decode(t)
		t.MaxResult = readSize(f, "max_result", MaxResult)
	})
}

var sizeForm = regexp.MustCompile(`^([1-9][0-9]{0,9})(B|KiB|MiB|GiB)?$`)

// readSize reads an amount of bytes, at most so many: 65536, 64KiB, 1MiB.
func readSize(f *document.Fields, name string, most int64) int64 {
	v := f.Get(name)
	if v == nil || v.Kind != document.Number && f.Typed(name, document.Text) == nil {
		return 0
	}
	parts := sizeForm.FindStringSubmatch(v.Text)
	if parts == nil {
		f.Report(document.CodeFieldInvalid, v.At, name, "%q is not a size like 65536, 64KiB or 1MiB", document.Brief(v.Text))
		return 0
	}
	bytes, _ := strconv.ParseInt(parts[1], 10, 64)
	shift := map[string]int{"KiB": 10, "MiB": 20, "GiB": 30}[parts[2]]
	if bytes > most>>shift {
		text := strconv.FormatInt(most>>20, 10) + "MiB"
		f.Report(document.CodeRange, v.At, name, "%s is %s: %s is the most", f.PathOf(name), v.Text, text)
		return 0
	}
	return bytes << shift
}

func (s *Server) checkCommand(f *document.Fields) {
	checkEach(f, "command", checkArgument)
	v := f.Get("command")
	if v == nil || v.Kind != document.List || len(v.Items) != len(s.Command) {
		return
	}
	path := f.PathOf("command")
	switch {
	case len(s.Command) == 0:
		f.Report(document.CodeFieldMissing, v.At, "command", "%s needs a program", path)
	case s.Command[0] == "" || strings.ContainsRune(s.Command[0], '\n'):
		f.Report(document.CodeRange, v.At, "command", "%s does not begin with a program", path)
	default:
		if i := credentialArgument(s.Command); i > 0 {
			f.Report(CodeCredential, v.At, "command", "%s: argument %d is a credential, which every user of the machine could see: put it into a variable, write env: {NAME: %sNAME}, and have the program read it there",
				path, i, ReferencePrefix)
		}
	}
}

func checkRoot(s string) error {
	if s == "" || strings.ContainsRune(s, 0) {
		return fmt.Errorf("%q is not a folder", s)
	}
	return nil
}

// checkPattern: patterns are of paths in the workspace; roots elsewhere are named in full.
func checkPattern(s string) error {
	why := document.PatternFault(strings.TrimPrefix(s, "/"))
	if strings.ContainsAny(s, "\x00\n") { // it is shown in one line
		why = "it has a line break, or a character that no path has"
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%q is not a pattern: %s; write a path of the workspace, in which * stands for a part of a name and ** for any folders, like docs/**", s, why)
}

func checkProgram(s string) error {
	if s == "" || strings.ContainsAny(s, "\x00\n") {
		return fmt.Errorf("%q is not a program", s)
	}
	if strings.ContainsAny(s, " \t") {
		return fmt.Errorf("%q has a blank: list the program alone, its arguments come with the call", s)
	}
	return nil
}

func checkArgument(s string) error {
	switch {
	case strings.ContainsRune(s, 0):
		return fmt.Errorf("%q has a NUL character", s)
	case strings.Contains(s, ReferencePrefix):
		return fmt.Errorf("%q: references are put in place in env and headers alone, never among arguments, which every user of the machine can see", s)
	}
	return nil
}

var hostForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

func checkHost(s string) error {
	if _, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return nil
	}
	host := s
	if h, port, err := net.SplitHostPort(s); err == nil && !strings.Contains(s, "/") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%q has no possible port", s)
		}
		if _, err := netip.ParseAddr(h); err == nil {
			return nil
		}
		host = h
	}
	if len(host) > 253 || !hostForm.MatchString(strings.ToLower(host)) {
		return fmt.Errorf("%q is not a host: write a name or an address, with or without a port, like api.example.com or 127.0.0.1:8080", s)
	}
	return nil
}

var variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

func checkVariable(s string) error {
	switch {
	case !variableForm.MatchString(s):
		return fmt.Errorf("%s cannot name a variable: letters, digits and _, not beginning with a digit", tipstaff.Quote(s, 140))
	case strings.HasPrefix(s, "TIPSTAFF_"):
		return fmt.Errorf("%s is reserved: names that begin with TIPSTAFF_ are set by Tipstaff", s)
	}
	return nil
}

func checkDigest(s string) error {
	if !tipstaff.IsDigest(s) {
		return fmt.Errorf("%s is not a digest: sha256: and 64 hex digits, in lower case", tipstaff.Quote(s, 140))
	}
	return nil
}

var headerForm = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$")

// ownHeaders are those that the protocol itself uses.
var ownHeaders = regexp.MustCompile(`(?i)^(mcp-.*|accept|accept-encoding|content-.*|connection|host|last-event-id|traceparent|tracestate|transfer-encoding|te|trailer|upgrade)$`)

func checkHeader(s string) error {
	switch {
	case !headerForm.MatchString(s):
		return fmt.Errorf("%s cannot name a header", tipstaff.Quote(s, 140))
	case ownHeaders.MatchString(s):
		return fmt.Errorf("the header %s is set by Tipstaff", s)
	}
	return nil
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return fmt.Errorf("%s is not a URL like https://tools.example.com/mcp", tipstaff.Quote(s, 200))
	case u.User != nil:
		return errors.New("the URL carries credentials: send them in headers, as $env:NAME")
	case u.Fragment != "" || u.RawFragment != "":
		return fmt.Errorf("%s has a fragment, which is never sent", tipstaff.Quote(s, 200))
	case strings.Contains(s, ReferencePrefix):
		return errors.New("references are put in place in headers, not in the URL")
	case u.Scheme == "https" || u.Scheme == "http" && tipstaff.Loopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("%s must be https; http is for servers on this machine alone", tipstaff.Quote(s, 200))
}

// checkAddress looks at the address of a model or collector.
func checkAddress(f *document.Fields, name string, v *document.Value, allowHTTP bool) {
	if err := checkBaseURL(v.Text, allowHTTP); err != nil {
		f.Report(document.CodeRange, v.At, name, "%s: %v; for http to another machine say allow_http: true", f.PathOf(name), err)
	}
	urlCredential(f, name, v)
}

// checkBaseURL: a key is sent only over connections that others cannot read.
func checkBaseURL(s string, allowHTTP bool) error {
	u, err := url.Parse(s)
	if err == nil && allowHTTP && u.Scheme == "http" {
		s = "https" + strings.TrimPrefix(s, u.Scheme)
	}
	return checkURL(s)
}

// urlCredential: a URL is kept and shown as it is.
func urlCredential(f *document.Fields, name string, v *document.Value) {
	u, err := url.Parse(v.Text)
	if err != nil {
		return
	}
	for key := range u.Query() {
		if speaksOfCredentials(key) {
			f.Report(CodeCredential, v.At, name, "%s holds a credential: send it in headers, as $env:NAME", f.PathOf(name))
			return
		}
	}
}
