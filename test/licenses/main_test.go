package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const isc = `Permission to use, copy, modify, and/or distribute this software for any
purpose with or without fee is hereby granted, provided that the above
copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES
WITH REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF
MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR
ANY SPECIAL, DIRECT, INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES
WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN
ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF
OR IN CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.
`

func TestLicencesAreJudged(t *testing.T) {
	const agpl = "This program is free software: you can redistribute it and/or modify\nit under the terms of the GNU Affero General Public License as published by\nthe Free Software Foundation, either version 3 of the License, or\n(at your option) any later version.\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"allowed":           {map[string]string{"LICENSE": isc}, ""},
		"none":              {map[string]string{"README.md": isc}, "no licence file"},
		"another":           {map[string]string{"COPYING": agpl}, "AGPL"},
		"one of two":        {map[string]string{"LICENSE": isc, "LICENSE.more": agpl}, "AGPL"},
		"our own words":     {map[string]string{"LICENSE.md": "Ask us first."}, "no licence that is known"},
		"mostly our own":    {map[string]string{"LICENSE": isc + strings.Repeat("Nor may it be used on Sundays, in boats or by bakers.\n", 50)}, "percent"},
		"that of a drawing": {map[string]string{"LICENSE": isc, "LICENSE-LOGO": "Ask us first."}, ""},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(slices.Collect(maps.Values(refused(dir))), "; "); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
