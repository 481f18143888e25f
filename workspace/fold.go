package workspace

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// fold is a path as file systems compare it that tell neither case nor forms of Unicode,
// and drop what stands behind a name: two paths that one of them takes for the same are
// equal. A workspace may be moved to such a file system, so paths are compared like that
// everywhere.
func fold(path string) string {
	if plain(path) {
		return path
	}
	parts := strings.Split(norm.NFC.String(path), "/")
	for i, part := range parts {
		part = strings.Map(foldRune, part)
		part, _, _ = strings.Cut(part, ":") // a stream of NTFS
		if trimmed := strings.TrimRight(part, ". "); trimmed != "" {
			part = trimmed
		}
		parts[i] = part
	}
	return strings.Join(parts, "/")
}

// plain reports whether a path is folded already, which most are.
func plain(path string) bool {
	last := byte('/')
	for i := range len(path) {
		c := path[i]
		if c >= 0x80 || 'A' <= c && c <= 'Z' || c == ':' || c == '/' && (last == '.' || last == ' ') {
			return false
		}
		last = c
	}
	return last != '.' && last != ' '
}

// foldRune is the least of the letters that differ in case alone, and none for characters
// that HFS+ does not compare.
func foldRune(r rune) rune {
	switch {
	case r < 0x80:
		return unicode.ToLower(r)
	case 0x200c <= r && r <= 0x200f, 0x202a <= r && r <= 0x202e, 0x206a <= r && r <= 0x206f, r == 0xfeff:
		return -1
	}
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return unicode.ToLower(least)
}
