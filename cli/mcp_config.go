package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
)

// mcpEntry is what our server is called in the configuration of a client.
const mcpEntry = "tipstaff"

// mcpConfig is how a client is told of servers: in a file of the project, in JSON with a
// member for all of them, or in TOML.
type mcpConfig struct {
	file   string
	member string // of the JSON; "": TOML
	entry  func(binary string, args []string) any
	schema string // of the file, where it has one
}

// mcpConfigs are those of the clients.
var mcpConfigs = map[string]mcpConfig{
	"claude": {file: ".mcp.json", member: "mcpServers", entry: func(binary string, args []string) any {
		return struct {
			Type    string   `json:"type"`
			Command string   `json:"command"`
			Args    []string `json:"args"`
		}{"stdio", binary, args}
	}},
	"cursor": {file: filepath.Join(".cursor", "mcp.json"), member: "mcpServers", entry: commandEntry},
	"codex":  {file: filepath.Join(".codex", "config.toml")},
	"gemini": {file: filepath.Join(".gemini", "settings.json"), member: "mcpServers", entry: commandEntry},
	"opencode": {file: "opencode.json", member: "mcp", schema: "https://opencode.ai/config.json", entry: func(binary string, args []string) any {
		return struct {
			Type    string   `json:"type"`
			Command []string `json:"command"`
			Enabled bool     `json:"enabled"`
		}{"local", append([]string{binary}, args...), true}
	}},
}

func commandEntry(binary string, args []string) any {
	return struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}{binary, args}
}

func mcpClients() []string { return slices.Sorted(maps.Keys(mcpConfigs)) }

// whole is a configuration that has our server alone.
func (c mcpConfig) whole(binary string, args []string) string {
	if c.member == "" {
		return tomlEntry(binary, args)
	}
	top := "{\n"
	if c.schema != "" {
		top += "  \"$schema\": " + jsonLine(c.schema) + ",\n"
	}
	return top + "  " + jsonLine(c.member) + ": {\n    " + jsonLine(mcpEntry) + ": " + c.value(binary, args, "    ", "  ") + "\n  }\n}\n"
}

// value is our entry as JSON, on lines that begin with prefix.
func (c mcpConfig) value(binary string, args []string, prefix, indent string) string {
	var text bytes.Buffer
	_ = json.Indent(&text, jsonOf(c.entry(binary, args)), prefix, indent) // it was just written
	return text.String()
}

func jsonLine(text string) string { return string(jsonOf(text)) }

// merged is the text of a client's file with our entry: all else is left as it is written.
func (c mcpConfig) merged(text, binary string, args []string) (string, error) {
	if c.member == "" {
		return mergeTOML(text, tomlEntry(binary, args))
	}
	if strings.TrimSpace(text) == "" {
		return c.whole(binary, args), nil
	}
	indent := "  "
	if found := regexp.MustCompile(`(?m)^([ \t]+)"`).FindStringSubmatch(text); found != nil {
		indent = found[1]
	}
	top, err := readMembers(text, 0)
	if err != nil {
		return "", err
	}
	servers, ok := top.find(c.member)
	if !ok {
		return top.insert(text, c.member, "{\n"+indent+indent+jsonLine(mcpEntry)+": "+c.value(binary, args, indent+indent, indent)+"\n"+indent+"}", indent, ""), nil
	}
	inner, err := readMembers(text, servers.start)
	if err != nil {
		return "", err
	}
	value := c.value(binary, args, indent+indent, indent)
	if own, ok := inner.find(mcpEntry); ok {
		if sameJSON(text[own.start:own.end], value) {
			return text, nil
		}
		return text[:own.start] + value + text[own.end:], nil
	}
	return inner.insert(text, mcpEntry, value, indent+indent, indent), nil
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && bytes.Equal(jsonOf(x), jsonOf(y))
}

// jsonObject is where the members of an object stand in a text, which may have comments and
// commas after the last member, as clients allow.
type jsonObject struct {
	open    int // behind its brace
	members []jsonMember
}

type jsonMember struct {
	name       string
	start, end int // of its value
}

func (o jsonObject) find(name string) (jsonMember, bool) {
	i := slices.IndexFunc(o.members, func(m jsonMember) bool { return m.name == name })
	if i < 0 {
		return jsonMember{}, false
	}
	return o.members[i], true
}

// insert adds a member before the others, on a line of its own.
func (o jsonObject) insert(text, name, value, indent, outer string) string {
	added := "\n" + indent + jsonLine(name) + ": " + value
	if len(o.members) > 0 {
		return text[:o.open] + added + "," + text[o.open:]
	}
	rest := text[o.open:]
	if strings.HasPrefix(strings.TrimLeft(rest, " \t\r\n"), "}") {
		rest = "\n" + outer + strings.TrimLeft(rest, " \t\r\n")
	}
	return text[:o.open] + added + rest
}

// readMembers reads the object that begins at or after a place.
func readMembers(text string, at int) (o jsonObject, err error) {
	s := jsonScanner{text: text, at: at}
	s.blank()
	if !s.take('{') {
		return o, s.fault("an object")
	}
	o.open = s.at
	for s.blank(); !s.take('}'); s.blank() {
		from := s.at
		if err := s.value(); err != nil {
			return o, err
		}
		m := jsonMember{}
		if json.Unmarshal([]byte(text[from:s.at]), &m.name) != nil {
			s.at = from
			return o, s.fault("a name")
		}
		if s.blank(); !s.take(':') {
			return o, s.fault("a colon")
		}
		s.blank()
		m.start = s.at
		if err := s.value(); err != nil {
			return o, err
		}
		m.end = s.at
		o.members = append(o.members, m)
		if s.blank(); !s.take(',') && (s.at >= len(text) || text[s.at] != '}') {
			return o, s.fault("a comma or the end of the object")
		}
	}
	return o, nil
}

type jsonScanner struct {
	text string
	at   int
}

func (s *jsonScanner) fault(want string) error {
	return fmt.Errorf("line %d: %s is missing", 1+strings.Count(s.text[:min(s.at, len(s.text))], "\n"), want)
}

func (s *jsonScanner) take(b byte) bool {
	if s.at < len(s.text) && s.text[s.at] == b {
		s.at++
		return true
	}
	return false
}

// blank passes spaces and comments.
func (s *jsonScanner) blank() {
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch {
		case strings.HasPrefix(rest, "//"):
			line, _, _ := strings.Cut(rest, "\n")
			s.at += len(line)
		case strings.HasPrefix(rest, "/*") && strings.Contains(rest[2:], "*/"):
			s.at += 2 + strings.Index(rest[2:], "*/") + 2
		case strings.HasPrefix(rest, "\uFEFF"):
			s.at += utf8.RuneLen('\uFEFF')
		case strings.ContainsRune(" \t\r\n", rune(rest[0])):
			s.at++
		default:
			return
		}
	}
}

// value passes a value of any kind.
func (s *jsonScanner) value() error {
	from := s.at
	for depth := 0; s.at < len(s.text); {
		switch b := s.text[s.at]; {
		case b == '"':
			for s.at++; s.at < len(s.text) && s.text[s.at] != '"' && s.text[s.at] != '\n'; s.at++ {
				if s.text[s.at] == '\\' {
					s.at++
				}
			}
			if !s.take('"') {
				return s.fault("the end of a text")
			}
		case b == '{' || b == '[':
			depth++
			s.at++
		case depth > 0 && (b == '}' || b == ']'):
			depth--
			s.at++
		case depth > 0 && (b == ',' || b == ':'):
			s.at++
			s.blank()
			continue
		case strings.IndexByte("}],:", b) >= 0:
			return s.fault("a value")
		default:
			for s.at < len(s.text) && strings.IndexByte("{}[],:\"/ \t\r\n", s.text[s.at]) < 0 {
				s.at++
			}
			if s.at == from {
				return s.fault("a value")
			}
		}
		if depth == 0 {
			return nil
		}
		s.blank()
	}
	return s.fault("a value")
}

// tomlEntry is our table. JSON texts and lists of them are TOML too.
func tomlEntry(binary string, args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = jsonLine(a)
	}
	return "[mcp_servers." + mcpEntry + "]\ncommand = " + jsonLine(binary) + "\nargs = [" + strings.Join(quoted, ", ") + "]\n"
}

var (
	tomlOwn    = regexp.MustCompile(`^\s*\[\s*mcp_servers\s*\.\s*("tipstaff"|'tipstaff'|tipstaff)\s*\]\s*(#.*)?$`)
	tomlHeader = regexp.MustCompile(`^\s*\[`)
	tomlInline = regexp.MustCompile(`^\s*mcp_servers\s*[.=]`)
)

// mergeTOML puts our table into the text of a file, in the place of the one that is there.
func mergeTOML(text, entry string) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	from, to, inside := -1, len(lines), ""
	for i, line := range lines {
		opened := inside
		for _, quotes := range []string{`"""`, `'''`} { // a text of many lines
			if n := strings.Count(line, quotes); (inside == "" || inside == quotes) && n%2 == 1 {
				if inside == "" {
					inside = quotes
				} else {
					inside = ""
				}
				break
			}
		}
		if opened != "" {
			continue
		}
		switch bare := strings.TrimRight(line, "\r\n"); {
		case tomlOwn.MatchString(bare):
			from, to = i, len(lines)
		case tomlHeader.MatchString(bare) && from >= 0 && to == len(lines):
			to = i
		case from < 0 && tomlInline.MatchString(bare):
			return "", fmt.Errorf("line %d: mcp_servers is written in one line: put the table there by hand", i+1)
		}
	}
	if from < 0 {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if strings.TrimSpace(text) != "" {
			text += "\n"
		}
		return text + entry, nil
	}
	for to > from+1 && (strings.TrimSpace(lines[to-1]) == "" || strings.HasPrefix(strings.TrimSpace(lines[to-1]), "#")) {
		to-- // what stands before the next table belongs to that
	}
	return strings.Join(lines[:from], "") + entry + strings.Join(lines[to:], ""), nil
}

// writtenConfig is what became of a client's file.
type writtenConfig struct {
	File    string `json:"file"`
	Changed bool   `json:"changed"`
	Diff    string `json:"diff,omitempty"`
}

// writeConfig merges our entry into a file and shows what that changes.
func (o *mcpOptions) writeConfig(file string, c mcpConfig, binary string, args []string) error {
	if at, err := filepath.EvalSymlinks(file); err == nil {
		file = at
	}
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &usageError{message: err.Error()}
	}
	text, err := c.merged(string(old), binary, args)
	if err != nil {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "%s cannot be changed: %v", file, err).WithCommand("put there what this prints without --write")
	}
	done := writtenConfig{File: file, Changed: text != string(old), Diff: lineDifference(string(old), text)}
	if done.Changed {
		if err := replaceFile(file, text); err != nil {
			return err
		}
	}
	return o.print(done, func() {
		if !done.Changed {
			fmt.Fprintf(o.out, "%s has it already\n", clean(file))
			return
		}
		fmt.Fprintf(o.out, "%s\n%s", clean(file), done.Diff)
	})
}

// replaceFile writes a file in one step: nobody finds half of it.
func replaceFile(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return &usageError{message: err.Error()}
	}
	mode := fs.FileMode(0o666)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	beside := fmt.Sprintf("%s.%d.tmp", file, os.Getpid())
	f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return &usageError{message: err.Error()}
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(beside, file)
	}
	if err != nil {
		_ = os.Remove(beside)
	}
	return err
}

// lineDifference shows the one place in which two texts differ, line by line.
func lineDifference(old, text string) string {
	a, b := strings.Split(strings.TrimSuffix(old, "\n"), "\n"), strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if old == "" {
		a = nil
	}
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	var shown strings.Builder
	for _, line := range a {
		fmt.Fprintf(&shown, "-%s\n", line)
	}
	for _, line := range b {
		fmt.Fprintf(&shown, "+%s\n", line)
	}
	return shown.String()
}
