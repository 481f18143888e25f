package tool

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

// LockName is the lock's file, beside the manifest.
const LockName = "tipstaff.lock"

// Lock is tipstaff.lock: the definition of every tool in use as someone has seen
// and accepted it. A tool that is not in it, or no longer equals what is in it,
// is not called. The tools of builtin are never in it: the binary is their lock.
//
// The zero Lock holds nothing. A Lock that was read is not changed: see With.
type Lock struct {
	Servers  map[string]LockedServer
	Workers  map[string]LockedCode // whose command runs code of the workspace
	Programs map[string]LockedCode // entries of servers.builtin.programs that do

	read string // digest of the file's bytes; "": there was none
}

// LockedServer is one server as it was accepted.
type LockedServer struct {
	Version       string `json:"version"`                  // that it reported
	PackageDigest string `json:"package_digest,omitempty"` // of what is started; "": none was asked for
	LockedCode
	Tools map[string]LockedTool `json:"tools"` // by name
}

// LockedCode is code of the workspace as it was accepted. The zero value says nothing.
type LockedCode struct {
	Files  map[string]string `json:"files,omitempty"`  // digests of what is run or may be loaded; nil: there is none, or, without Beside, the lock is older than these digests
	Beside bool              `json:"beside,omitempty"` // Files are all that may be loaded; false: the lock is older, and they are those that the command names
}

// LockedTool is one definition as it was accepted.
type LockedTool struct {
	Digest     string          `json:"digest"`
	Definition json.RawMessage `json:"definition"` // canonical JSON
}

// LockError is a lock that cannot be trusted. Nothing runs until it is mended.
type LockError struct {
	File    string // "": not read from a file
	Message string
}

func (e *LockError) Error() string {
	name := e.File
	if name == "" {
		name = LockName
	}
	return fmt.Sprintf("%s cannot be trusted: %s", name, e.Message)
}

func distrust(format string, args ...any) *LockError {
	return &LockError{Message: fmt.Sprintf(format, args...)}
}

// lockFile is the lock as it is written.
type lockFile struct {
	Version  int                     `json:"version"`
	Servers  map[string]LockedServer `json:"servers"`
	Workers  map[string]LockedCode   `json:"workers,omitempty"`
	Programs map[string]LockedCode   `json:"programs,omitempty"`
}

// Tool is what the lock holds of a tool.
func (l *Lock) Tool(server, tool string) (LockedTool, bool) {
	if l == nil {
		return LockedTool{}, false
	}
	t, ok := l.Servers[server].Tools[tool]
	return t, ok
}

// Names are the tools that the lock holds, as server/tool, sorted.
func (l *Lock) Names() (names []string) {
	if l == nil {
		return nil
	}
	for _, server := range sortedKeys(l.Servers) {
		for _, tool := range sortedKeys(l.Servers[server].Tools) {
			names = append(names, server+"/"+tool)
		}
	}
	return names
}

// Code is what the lock holds of the code of a command.
func (l *Lock) Code(of workspace.Command) LockedCode {
	switch {
	case l == nil:
		return LockedCode{}
	case of.Kind == workspace.KindServer:
		return l.Servers[of.Name].LockedCode
	case of.Kind == workspace.KindWorker:
		return l.Workers[of.Name]
	}
	return l.Programs[of.Name]
}

// With is the lock with one server replaced; one without tools is taken out.
func (l *Lock) With(name string, s LockedServer) *Lock {
	next := *l
	next.Servers = with(l.Servers, name, s, len(s.Tools) > 0)
	return &next
}

// with is a map with an entry, or without it.
func with[T any](all map[string]T, name string, entry T, holds bool) map[string]T {
	next := map[string]T{}
	maps.Copy(next, all)
	if next[name] = entry; !holds {
		delete(next, name)
	}
	return next
}

// Proposal is what the lock's file would hold, and the digest of the file that it takes
// the place of; "": there is none.
func (l *Lock) Proposal() (next []byte, was string, err error) {
	next, err = l.Bytes()
	return next, l.read, err
}

// ReadProposal is the lock that somebody has proposed and looked at.
func ReadProposal(next []byte, was string) (*Lock, error) {
	l, err := ParseLock(next)
	if err != nil {
		return nil, err
	}
	l.read = was
	return l, nil
}

// Bytes is the lock's file: JSON, sorted and indented, so that equal locks have
// equal bytes and version control shows what moved.
func (l *Lock) Bytes() ([]byte, error) {
	servers := l.Servers
	if servers == nil {
		servers = map[string]LockedServer{}
	}
	sorted, err := canonicalOf(lockFile{1, servers, l.Workers, l.Programs})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, sorted, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// ParseLock reads a lock. It takes any layout and order of members, and nothing
// else than what Bytes can write: an unknown or repeated member, or a digest that
// is not its definition's, is a *LockError.
func ParseLock(data []byte) (*Lock, error) {
	given, err := canonical(data)
	if err != nil {
		return nil, distrust("%v", placed(data, err))
	}
	var f lockFile
	if err := document.UnmarshalStrict(given, &f); err != nil {
		return nil, distrust("%v", err)
	}
	if f.Version != 1 {
		return nil, distrust("it has version %d, and this Tipstaff reads 1", f.Version)
	}
	for _, name := range sortedKeys(f.Servers) {
		if err := f.Servers[name].check(name); err != nil {
			return nil, err
		}
	}
	for kind, all := range map[string]map[string]LockedCode{workspace.KindWorker: f.Workers, workspace.KindProgram: f.Programs} {
		for name, code := range all {
			if err := code.check(kind, name); err != nil {
				return nil, err
			}
		}
	}
	// The decoder takes members whose names differ in case, and null for what is
	// absent. Writing the lock again finds whatever it was lenient about.
	again, err := canonicalOf(f)
	if err != nil || !bytes.Equal(given, again) {
		return nil, distrust("it has members that do not belong there")
	}
	l := &Lock{Servers: map[string]LockedServer{}, Workers: f.Workers, Programs: f.Programs, read: flow.Digest(data)}
	for name, s := range f.Servers {
		if s.Tools == nil {
			s.Tools = map[string]LockedTool{}
		}
		l.Servers[name] = s
	}
	return l, nil
}

func (s LockedServer) check(name string) error {
	switch {
	case name == builtin.Name:
		return distrust("it lists %s, which the binary locks", builtin.Name)
	case !tipstaff.IsServerName(name):
		return distrust("%s cannot name a server", tipstaff.Quote(name, 60))
	case s.PackageDigest != "" && !tipstaff.IsDigest(s.PackageDigest):
		return distrust("package_digest of server %q is not sha256: and 64 lower-case hex digits", name)
	}
	if err := s.LockedCode.check(workspace.KindServer, name); err != nil {
		return err
	}
	for _, tool := range sortedKeys(s.Tools) {
		if err := s.Tools[tool].check(tool); err != nil {
			return distrust("%s/%s: %v", name, tipstaff.Quote(tool, 140), err)
		}
	}
	return nil
}

func (c LockedCode) check(kind, name string) error {
	for _, path := range sortedKeys(c.Files) {
		if !tipstaff.IsDigest(c.Files[path]) {
			return distrust("the digest of %s, of %s %s, is not sha256: and 64 lower-case hex digits", tipstaff.Quote(path, 200), kind, tipstaff.Quote(name, 60))
		}
	}
	return nil
}

// check: a part of canonical JSON is canonical, so the definition has the digest that it
// was accepted with.
func (t LockedTool) check(name string) error {
	w, err := parseWireTool(t.Definition)
	switch {
	case err != nil:
		return err
	case w.Name != name || !tipstaff.IsToolName(name):
		return fmt.Errorf("its definition names %s", tipstaff.Quote(w.Name, 60))
	case flow.Digest(t.Definition) != t.Digest:
		return fmt.Errorf("its definition has digest %s, not %s", flow.Digest(t.Definition), tipstaff.Quote(t.Digest, 80))
	}
	return nil
}

// placed adds the line at which a JSON document is at fault, where that is known:
// a merge that went wrong is found by it.
func placed(data []byte, err error) error {
	var syntax *json.SyntaxError
	if derr := json.Unmarshal(data, new(any)); !errors.As(derr, &syntax) {
		return err
	}
	at := min(max(int(syntax.Offset), 0), len(data))
	return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:at], []byte("\n")), syntax)
}

// maxLock is the size of a lock of ten thousand large tools.
const maxLock = 256 << 20

// ReadLock reads a workspace's lock. Where there is none it is empty. What cannot
// be trusted is a *LockError.
func ReadLock(workspace string) (*Lock, error) {
	root, err := os.OpenRoot(workspace)
	if errors.Is(err, fs.ErrNotExist) {
		return &Lock{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := readLock(root)
	if err != nil {
		return nil, err
	}
	if data == nil {
		return &Lock{}, nil
	}
	l, err := ParseLock(data)
	var untrusted *LockError
	if errors.As(err, &untrusted) {
		untrusted.File = filepath.Join(workspace, LockName)
	}
	return l, err
}

// readLock is the file's bytes, nil if there is none. A link is not followed:
// what someone accepted stands in the workspace, where it is reviewed.
func readLock(root *os.Root) ([]byte, error) {
	info, err := root.Lstat(LockName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &LockError{File: filepath.Join(root.Name(), LockName), Message: "it is not a plain file"}
	}
	f, err := root.Open(LockName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(info, opened) {
		return nil, &LockError{File: filepath.Join(root.Name(), LockName), Message: "it was exchanged while it was read"}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxLock+1))
	if err == nil && len(data) > maxLock {
		return nil, &LockError{File: filepath.Join(root.Name(), LockName), Message: fmt.Sprintf("it is larger than %d MiB", maxLock>>20)}
	}
	if data == nil && err == nil {
		data = []byte{} // an empty file is a damaged lock, not a missing one
	}
	return data, err
}

// ErrLockMoved: the lock is not the one that was read before it was changed.
var ErrLockMoved = errors.New(LockName + " was changed by someone else meanwhile")

// Write puts the lock in place of the one it was made from, as a whole or not at
// all, durably. If another stands there by now nothing is written, ErrLockMoved.
func (l *Lock) Write(workspace string) (err error) {
	data, err := l.Bytes()
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := l.unmoved(root); err != nil {
		return err
	}
	temporary := "." + LockName + "-" + rand.Text()
	defer func() {
		if err != nil {
			_ = root.Remove(temporary) // it may not be there
		}
	}()
	if err := builtin.CreateFile(root, temporary, data, 0o644); err != nil {
		return fmt.Errorf("%s cannot be written: %w", LockName, err)
	}
	if err := l.unmoved(root); err != nil {
		return err
	}
	if err := root.Rename(temporary, LockName); err != nil {
		return fmt.Errorf("%s cannot be written: %w", LockName, err)
	}
	folder, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close()) // which makes the rename durable
}

// unmoved checks that the file is still the one this lock was made from.
func (l *Lock) unmoved(root *os.Root) error {
	now, err := readLock(root)
	if err != nil {
		return err
	}
	digest := ""
	if now != nil {
		digest = flow.Digest(now)
	}
	if digest != l.read {
		return ErrLockMoved
	}
	return nil
}

// holds checks a definition against the lock. A nil lock is not looked at.
func (l *Lock) holds(d *Definition) *flow.Error {
	if l == nil || d.Server == builtin.Name {
		return nil
	}
	t, ok := l.Tool(d.Server, d.Tool)
	if !ok {
		return refusal(CodeUnlocked, detail{"digest": d.Digest}, "%s/%s is not in %s any more", d.Server, d.Tool, LockName)
	}
	return unchanged(l.Servers[d.Server].Version, t, d, "`tipstaff tools pin "+d.Server+"` shows it")
}

// accepts reports whether the lock holds exactly this definition.
func (l *Lock) accepts(d *Definition) bool {
	t, ok := l.Tool(d.Server, d.Tool)
	return ok && t.Digest == d.Digest
}

// unchanged refuses a definition, or a version of its server, that is another
// than the one that was accepted. remedy says what can be done about it.
func unchanged(version string, was LockedTool, now *Definition, remedy string) *flow.Error {
	var changes []tipstaff.PinChange
	if version != now.Version {
		changes = append(changes, tipstaff.PinChange{Kind: tipstaff.PinChanged, Member: memberVersion, Was: flow.JSON(version), Now: flow.JSON(now.Version)})
	}
	if was.Digest != now.Digest {
		changes = append(changes, members(now.Server, now.Tool, was.Definition, now.Raw)...)
	}
	if changes == nil {
		return nil
	}
	list, text := briefly(changes)
	return refusal(CodeDefinitionChanged, detail{"accepted": was.Digest, "digest": now.Digest, "difference": list},
		"the definition of %s/%s is not the one that was accepted: %s; %s", now.Server, now.Tool, text, remedy)
}

// What a record says of a changed definition is bounded: the server decides how
// much there is.
const (
	mostMembers    = 20
	mostMemberText = 240 // bytes of a value
)

// moved is one member in a refusal.
type moved struct {
	Member string          `json:"member"`
	Was    json.RawMessage `json:"was,omitempty"` // a long value is a text, cut
	Now    json.RawMessage `json:"now,omitempty"`
}

// briefly is a difference as a record keeps it, and as a message names it.
func briefly(changes []tipstaff.PinChange) ([]moved, string) {
	var list []moved
	var names []string
	for _, c := range changes[:min(len(changes), mostMembers)] {
		list = append(list, moved{cut(c.Member, mostMemberText), cutValue(c.Was), cutValue(c.Now)})
		names = append(names, cut(strings.TrimPrefix(c.Member, "/"), mostMemberText)+" "+verb(c))
	}
	if left := len(changes) - len(list); left > 0 {
		names = append(names, "and "+strconv.Itoa(left)+" more")
	}
	return list, strings.Join(names, ", ")
}

func verb(c tipstaff.PinChange) string {
	switch {
	case c.Was == nil:
		return "is new"
	case c.Now == nil:
		return "is gone"
	}
	return "changed"
}

func cutValue(raw json.RawMessage) json.RawMessage {
	if len(raw) <= mostMemberText {
		return raw
	}
	return flow.JSON(cut(string(raw), mostMemberText))
}
