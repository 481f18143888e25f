package tool

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

// Fields that belong to one kind of server alone.
var (
	ofBuiltin = []string{"roots", "hosts", "programs"}
	ofCommand = []string{"command", "env", "inherit_env", "package", "package_digest"}
	ofURL     = []string{"url", "headers"}
)

func (p *manifestParser) servers(n at) {
	list, _ := p.entries(n)
	for _, e := range list {
		if !tipstaff.IsServerName(e.name) {
			p.report(ProblemField, e.key, "%q cannot name a server: 1 to 32 of a-z, 0-9, _ and -, not beginning with _ or -", e.name)
			continue
		}
		p.m.Servers[e.name] = p.server(e)
	}
}

func (p *manifestParser) server(e entry) ServerConfig {
	s := ServerConfig{Tools: map[string]ToolConfig{}, MaxConcurrent: DefaultMaxConcurrent}
	given := map[string]bool{}
	known := fields{
		"roots":          func(v at) { s.Roots = p.each(v, checkRoot) },
		"hosts":          func(v at) { s.Hosts = p.each(v, checkHost) },
		"programs":       func(v at) { s.Programs = p.each(v, checkProgram) },
		"command":        func(v at) { s.Command = p.command(v) },
		"env":            func(v at) { s.Env = p.values(v, checkVariable) },
		"inherit_env":    func(v at) { s.InheritEnv = p.each(v, checkVariable) },
		"package":        func(v at) { s.Package = p.checked(v, checkRoot) },
		"package_digest": func(v at) { s.PackageDigest = p.checked(v, checkDigest) },
		"url":            func(v at) { s.URL = p.checked(v, checkURL); p.urlCredential(v, s.URL) },
		"headers":        func(v at) { s.Headers = p.values(v, checkHeader) },
		"tools":          func(v at) { p.tools(e.name, v, s.Tools) },
		"timeout":        func(v at) { s.Timeout = p.timeout(v) },
		"max_concurrent": func(v at) { s.MaxConcurrent = int(p.integer(v, 1, mostConcurrent)) },
	}
	for name, read := range known {
		known[name] = func(v at) { given[name] = true; p.belongs(e.name, name, v); read(v) }
	}
	p.object(e.value, known)
	p.reachable(e, given)
	if !given["tools"] {
		p.report(ProblemMissing, e.value, "%s needs tools: a tool that is not listed cannot be called", e.value.path)
	}
	return s
}

// belongs reports a field of builtin at another server, and the other way round.
func (p *manifestParser) belongs(server, field string, n at) {
	others := slices.Concat(ofCommand, ofURL)
	if server != builtin.Name {
		others = ofBuiltin
	}
	switch {
	case !slices.Contains(others, field):
	case server == builtin.Name:
		p.report(ProblemField, n, "%s is inside this binary: it has no %s", builtin.Name, field)
	default:
		p.report(ProblemField, n, "%s belongs to the server %s alone", field, builtin.Name)
	}
}

// reachable: a server is either started or connected to, and has only the fields
// that go with it.
func (p *manifestParser) reachable(e entry, given map[string]bool) {
	if e.name == builtin.Name {
		return
	}
	stray := ""
	for _, field := range slices.Concat(ofCommand[1:], ofURL[1:]) {
		with := "command"
		if slices.Contains(ofURL, field) {
			with = "url"
		}
		if given[field] && !given[with] {
			stray = fmt.Sprintf("%s goes with %s", field, with)
		}
	}
	switch {
	case given["command"] && given["url"]:
		p.report(ProblemRange, e.value, "%s has both command and url: a server is either started or connected to", e.value.path)
	case !given["command"] && !given["url"]:
		p.report(ProblemMissing, e.value, "%s needs command, a list, or url", e.value.path)
	case stray != "":
		p.report(ProblemRange, e.value, "%s: %s", e.value.path, stray)
	case given["package"] && !given["package_digest"]:
		p.report(ProblemMissing, e.value, "%s has a package without package_digest: nothing would be checked", e.value.path)
	}
}

func (p *manifestParser) tools(server string, n at, into map[string]ToolConfig) {
	list, ok := p.entries(n)
	if ok && len(list) == 0 {
		p.report(ProblemMissing, n, "%s lists no tool: a tool that is not listed cannot be called", n.path)
	}
	known := builtin.Tools()
	for _, e := range list {
		switch {
		case server == builtin.Name && !slices.Contains(known, e.name):
			p.report(ProblemTool, e.key, "%s has no tool %q%s", builtin.Name, e.name, suggest(e.name, known))
		case !tipstaff.IsToolName(e.name):
			p.report(ProblemTool, e.key, "%s cannot name a tool: 1 to 128 of A-Z, a-z, 0-9, _, . and -", tipstaff.Quote(e.name, 140))
		default:
			into[e.name] = p.tool(e.value)
		}
	}
}

func (p *manifestParser) command(n at) []string {
	argv := p.each(n, checkArgument)
	switch {
	case p.reportedAt(n):
	case len(argv) == 0:
		p.report(ProblemMissing, n, "%s needs a program", n.path)
	case argv[0] == "" || strings.ContainsRune(argv[0], '\n'):
		p.report(ProblemRange, n, "%s does not begin with a program", n.path)
	default:
		if i := credentialArgument(argv); i > 0 {
			p.report(ProblemCredential, n, "%s: argument %d is a credential, which every user of the machine could see: put it into a variable, write env: {NAME: %sNAME}, and have the program read it there",
				n.path, i, referencePrefix)
		}
	}
	return argv
}

// values reads names with texts in which references may stand. A text without one
// under a name that speaks of credentials is taken for a credential.
func (p *manifestParser) values(n at, checkName func(string) error) map[string]string {
	list, _ := p.entries(n)
	values := map[string]string{}
	for _, e := range list {
		if err := checkName(e.name); err != nil {
			p.report(ProblemRange, e.key, "%v", err)
			continue
		}
		text, ok := p.text(e.value)
		if !ok {
			continue
		}
		references, err := parseReferences(text)
		switch {
		case err != nil:
			p.report(ProblemRange, e.value, "%s: %v", e.value.path, err)
		case strings.ContainsAny(text, "\x00\r\n"):
			p.report(ProblemRange, e.value, "%s has a line break or a NUL character", e.value.path)
		case foreignReference(text) != "":
			p.foreign(e.value, text)
		case len(references) == 0 && text != "" && (speaksOfCredentials(e.name) || looksRandom(text)):
			p.literal(e.value)
		default:
			values[e.name] = text
		}
	}
	return values
}

func (p *manifestParser) literal(n at) {
	p.report(ProblemCredential, n, "%s holds a credential: put it into a variable and write $env:NAME here", n.path)
}

// foreign: a text with somebody else's references would be passed on as it is.
func (p *manifestParser) foreign(n at, text string) {
	name := foreignReference(text)
	p.report(ProblemRange, n, "%s: %s would be passed on as it is written: for the value of the variable %s write %s%s", n.path, placeholder.FindString(text), name, referencePrefix, name)
}

// urlCredential: a URL is kept and shown as it is.
func (p *manifestParser) urlCredential(n at, text string) {
	u, err := url.Parse(text)
	if err != nil {
		return
	}
	for name := range u.Query() {
		if speaksOfCredentials(name) {
			p.report(ProblemCredential, n, "%s holds a credential: send it in headers, as $env:NAME", n.path)
			return
		}
	}
}

// checked is a text that passes a check; "" after a problem.
func (p *manifestParser) checked(n at, check func(string) error) string {
	s, ok := p.text(n)
	if !ok {
		return ""
	}
	if err := check(s); err != nil {
		p.report(ProblemRange, n, "%v", err)
		return ""
	}
	return s
}

func checkArgument(s string) error {
	switch {
	case strings.ContainsRune(s, 0):
		return fmt.Errorf("%q has a NUL character", s)
	case strings.Contains(s, referencePrefix):
		return fmt.Errorf("%q: references are put in place in env and headers alone, never among arguments, which every user of the machine can see", s)
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
		return fmt.Errorf("the URL carries credentials: send them in headers, as $env:NAME")
	case u.Fragment != "" || u.RawFragment != "":
		return fmt.Errorf("%s has a fragment, which is never sent", tipstaff.Quote(s, 200))
	case strings.Contains(s, referencePrefix):
		return fmt.Errorf("references are put in place in headers, not in the URL")
	case u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("%s must be https; http is for servers on this machine alone", tipstaff.Quote(s, 200))
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return net.ParseIP(host).IsLoopback()
	}
	return addr.Unmap().IsLoopback()
}
