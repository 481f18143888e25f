package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// document is a bill of materials in the JSON of CycloneDX 1.6, as far as we have something to
// say. The same binary has the same document: its number is made of the digest, its time is the
// commit's.
type document struct {
	Schema       string       `json:"$schema"`
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	SerialNumber string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp,omitempty"`
	Component component `json:"component"`
}

type component struct {
	Ref        string     `json:"bom-ref"`
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licenses   []licence  `json:"licenses,omitempty"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type licence struct {
	License struct {
		ID   string `json:"id,omitempty"`   // of the list of SPDX
		Name string `json:"name,omitempty"` // of one that is not on it
	} `json:"license"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// writeSBOM writes what the program in an archive is made of, as the go command has noted it in
// the program itself.
func writeSBOM(out, archive, program string) error {
	text, err := fileIn(archive, program)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s in %s: %w", program, archive, err)
	}
	dirs, err := modules([]string{info.Path}, environment(info)...)
	if err != nil {
		return err
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	dirs["std"] = strings.TrimSpace(string(goroot))
	made, err := describe(text, program, info, dirs)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(made); err != nil {
		return err
	}
	return os.WriteFile(out, b.Bytes(), 0o666)
}

// fileIn reads a file of a .tar.gz, in whatever folder of it.
func fileIn(archive, name string) ([]byte, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", archive, err)
	}
	for r := tar.NewReader(z); ; {
		switch h, err := r.Next(); {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%s has no file %s", archive, name)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", archive, err)
		case path.Base(h.Name) == name:
			return io.ReadAll(r)
		}
	}
}

// environment has the go command choose files as it did for the binary.
func environment(info *buildinfo.BuildInfo) (env []string) {
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" || s.Key == "CGO_ENABLED" {
			env = append(env, s.Key+"="+s.Value)
		}
	}
	return env
}

// described are the settings of a build that the document repeats.
var described = []string{"CGO_ENABLED", "GOARCH", "GOOS", "vcs.revision"}

// describe makes the document. dirs are the folders of the modules and of Go, which is std, in
// which licences are looked for.
func describe(binary []byte, program string, info *buildinfo.BuildInfo, dirs map[string]string) (*document, error) {
	digest := sha256.Sum256(binary)
	main := component{Type: "application", Name: program, Version: info.Main.Version, PURL: purl(info.Main),
		Hashes: []hash{{"SHA-256", hex.EncodeToString(digest[:])}}}
	main.Ref = main.PURL
	d := &document{Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", SpecVersion: "1.6", SerialNumber: serial(digest), Version: 1}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			d.Metadata.Timestamp = s.Value
		}
		if slices.Contains(described, s.Key) {
			main.Properties = append(main.Properties, property{"go:" + s.Key, s.Value})
		}
	}
	var err error
	if main.Licenses, err = licences("."); err != nil {
		return nil, err
	}
	d.Metadata.Component = main

	std := component{Type: "library", Name: "std", Version: info.GoVersion, PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}
	if std.Licenses, err = licences(dirs["std"]); err != nil {
		return nil, err
	}
	d.Components = append(d.Components, std)
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		dir := dirs[module.Path]
		if dir == "" {
			return nil, fmt.Errorf("the binary has %s, which the source here does not need: it was built from another commit", module.Path)
		}
		c := component{Type: "library", Name: module.Path, Version: module.Version, PURL: purl(*module)}
		if module.Sum != "" {
			c.Properties = []property{{"go:sum", module.Sum}}
		}
		if c.Licenses, err = licences(dir); err != nil {
			return nil, err
		}
		d.Components = append(d.Components, c)
	}
	needs := dependency{Ref: main.Ref}
	for i := range d.Components {
		c := &d.Components[i]
		c.Ref = c.PURL
		needs.DependsOn = append(needs.DependsOn, c.Ref)
	}
	d.Dependencies = []dependency{needs}
	return d, nil
}

// purl is the address of a module among packages of all kinds.
func purl(m debug.Module) string {
	if m.Version == "" || m.Version == "(devel)" {
		return "pkg:golang/" + m.Path
	}
	return "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
}

// serial is a UUID of version 8, which may be made of anything, here of a digest.
func serial(digest [sha256.Size]byte) string {
	u := digest[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// notOfSPDX are licences with names that are licensecheck's own.
var notOfSPDX = []string{"BSD-3-Clause-NoTrademark", "GooglePatentClause"}

// licences are those that the licence files of a folder name.
func licences(dir string) (list []licence, err error) {
	files, err := licenceFiles(dir)
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}
		for _, m := range licensecheck.Scan(text).Match {
			ids[m.ID] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		var l licence
		if slices.Contains(notOfSPDX, id) {
			l.License.Name = id
		} else {
			l.License.ID = id
		}
		list = append(list, l)
	}
	return list, nil
}

// licenceFiles are the files of a folder that hold the licence of its code.
func licenceFiles(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !e.IsDir() && named.MatchString(e.Name()) && !beside.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: go mod download brings what is missing", err)
	}
	return names, err
}
