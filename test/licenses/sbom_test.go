package main

import (
	"archive/tar"
	"compress/gzip"
	"debug/buildinfo"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

func TestBillOfMaterials(t *testing.T) {
	bare := "github.com/example/none"
	dirs := map[string]string{bare: t.TempDir(), "example.org/isc/v2": t.TempDir(), "std": t.TempDir()}
	for _, module := range []string{"example.org/isc/v2", "std"} {
		if err := os.WriteFile(filepath.Join(dirs[module], "LICENSE"), []byte(isc), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	info := &buildinfo.BuildInfo{GoVersion: "go1.26.8", Path: "example.org/product/cmd/tool", Main: debug.Module{Path: "example.org/product", Version: "v0.1.0+dirty"},
		Deps:     []*debug.Module{{Path: bare, Version: "v1.0.0", Sum: "h1:x="}, {Path: "example.org/isc", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/isc/v2", Version: "v2.0.0"}}},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "darwin"}, {Key: "vcs.time", Value: "2026-03-04T05:06:07Z"}, {Key: "-ldflags", Value: "-s"}}}
	d, err := describe([]byte("binary"), "tool", info, dirs)
	if err != nil {
		t.Fatal(err)
	}
	main := d.Metadata.Component
	// printf binary | sha256sum
	if want := "9a3a45d01531a20e89ac6ae10b0b0beb0492acd7216a368aa062d1a5fecaf9cd"; main.Hashes[0].Content != want {
		t.Errorf("the binary has the digest %s, want %s", main.Hashes[0].Content, want)
	}
	if want := "urn:uuid:9a3a45d0-1531-820e-89ac-6ae10b0b0beb"; d.SerialNumber != want {
		t.Errorf("serial number %s, want %s", d.SerialNumber, want)
	}
	if d.Metadata.Timestamp != "2026-03-04T05:06:07Z" || main.PURL != "pkg:golang/example.org/product@v0.1.0%2Bdirty" || !slices.Equal(main.Properties, []property{{"go:GOOS", "darwin"}}) {
		t.Errorf("%+v", d.Metadata)
	}
	var got []string
	for _, c := range d.Components[1:] {
		got = append(got, c.PURL)
		for _, l := range c.Licenses {
			got = append(got, l.License.ID)
		}
	}
	if want := []string{"pkg:golang/github.com/example/none@v1.0.0", "pkg:golang/example.org/isc/v2@v2.0.0", "ISC"}; !slices.Equal(got, want) {
		t.Errorf("components %q, want %q", got, want)
	}
	if std := d.Components[0]; std.PURL != "pkg:golang/std@1.26.8" || len(std.Licenses) == 0 {
		t.Errorf("%+v", std)
	}
	if needs := d.Dependencies[0]; needs.Ref != main.Ref || len(needs.DependsOn) != 3 {
		t.Errorf("%+v", needs)
	}
	delete(dirs, bare)
	if _, err := describe([]byte("binary"), "tool", info, dirs); err == nil || !strings.Contains(err.Error(), "another commit") {
		t.Errorf("of another commit: %v", err)
	}
}

func TestProgramIsFoundInItsArchive(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "a.tar.gz")
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	for name, text := range map[string]string{"a/README.md": "read", "a/tool": "program"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := fileIn(archive, "tool"); err != nil || string(text) != "program" {
		t.Errorf("%q %v", text, err)
	}
	if _, err := fileIn(archive, "other"); err == nil || !strings.Contains(err.Error(), "has no file other") {
		t.Error(err)
	}
}
