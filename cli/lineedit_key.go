package cli

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// key is something that a person at a terminal did.
type key struct {
	name string // "": what nobody here has a use for
	text string // of "text": what was typed or pasted
}

// keyNames are by what terminals send. Of sequences that have parameters those are
// left out, save a number before ~.
var keyNames = map[string]string{
	"\x01": "home", "\x1b[H": "home", "\x1b[1~": "home", "\x1b[7~": "home",
	"\x05": "end", "\x1b[F": "end", "\x1b[4~": "end", "\x1b[8~": "end",
	"\x02": "left", "\x1b[D": "left", "\x06": "right", "\x1b[C": "right",
	"\x10": "up", "\x1b[A": "up", "\x0e": "down", "\x1b[B": "down",
	"\x1bb": "word left", "\x1bf": "word right", "\x1b<": "first", "\x1b>": "last",
	"\r": "enter", "\n": "enter", "\x1b\r": "newline", "\x1b\n": "newline", "\t": "tab",
	"\x03": "interrupt", "\x04": "end of input", "\x07": "escape", "\x0c": "clear", "\x12": "search", "\x19": "yank",
	"\x7f": "backspace", "\b": "backspace", "\x1b[3~": "delete", "\x0b": "kill end", "\x15": "kill start",
	"\x1b[5~": "page up", "\x1b[6~": "page down", "\x1b[Z": "back tab", "\x1a": "suspend",
	"\x17": "kill word", "\x1b\x7f": "kill word", "\x1b\b": "kill word", "\x1bd": "kill word right",
}

const (
	escape   = 0x1b
	pasteEnd = "\x1b[201~"
	// maxPaste is above what any message may have: that is refused where it can be
	// explained, this only keeps the memory in bounds.
	maxPaste    = 4 << 20
	maxSequence = 64
)

// keyDecoder makes keys of what a terminal sends, however it is cut into pieces.
type keyDecoder struct {
	left    []byte // the beginning of a key
	pasting bool
	pasted  []byte
}

// feed takes in some bytes and returns the keys that they complete. Letters that came
// together are one key: they are drawn once.
func (d *keyDecoder) feed(p []byte) (keys []key) {
	d.left = append(d.left, p...)
	for len(d.left) > 0 {
		n, k := d.next(d.left)
		if n == 0 {
			break
		}
		d.left = d.left[n:]
		switch last := len(keys) - 1; {
		case k.name == "text" && last >= 0 && keys[last].name == "text":
			keys[last].text += k.text
		case k.name != "":
			keys = append(keys, k)
		}
	}
	return keys
}

// waits reports whether an escape may be a key of its own, or begin one.
func (d *keyDecoder) waits() bool { return !d.pasting && len(d.left) > 0 && d.left[0] == escape }

// pause says that nothing followed for a while: an escape was the key itself.
func (d *keyDecoder) pause() (keys []key) {
	if !d.waits() {
		return nil
	}
	rest := d.left[1:]
	d.left = nil
	return append([]key{{name: "escape"}}, d.feed(rest)...)
}

// next reads one key from the beginning of p; 0: it is not complete.
func (d *keyDecoder) next(p []byte) (int, key) {
	switch c := p[0]; {
	case d.pasting:
		return d.paste(p)
	case c == escape:
		return d.sequence(p)
	case c < ' ' || c == 0x7f:
		return 1, key{name: keyNames[string(p[:1])]}
	case !utf8.FullRune(p):
		return 0, key{}
	}
	r, size := utf8.DecodeRune(p)
	if r == utf8.RuneError || r >= 0x80 && r < 0xa0 {
		return size, key{}
	}
	return size, key{"text", string(p[:size])}
}

// paste collects up to the end of what is pasted.
func (d *keyDecoder) paste(p []byte) (int, key) {
	n, ended := bytes.Index(p, []byte(pasteEnd)), true
	if n < 0 { // the end may have begun
		n, ended = len(p), false
		for i := max(0, n-len(pasteEnd)+1); i < n; i++ {
			if strings.HasPrefix(pasteEnd, string(p[i:])) {
				n = i
			}
		}
	}
	d.pasted = append(d.pasted, p[:min(n, maxPaste-len(d.pasted))]...)
	if !ended {
		return n, key{}
	}
	text := pasteText(d.pasted)
	d.pasting, d.pasted = false, nil
	return n + len(pasteEnd), key{"text", text}
}

// pasteText is what is kept of a paste: text with its lines.
func pasteText(p []byte) string {
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(string(p), ""))
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, text)
}

// sequence reads a key that begins with an escape: one with Alt, or what a terminal
// sends for a key without a letter.
func (d *keyDecoder) sequence(p []byte) (int, key) {
	switch {
	case len(p) < 2, p[1] == 'O' && len(p) < 3:
		return 0, key{}
	case p[1] == escape:
		return 1, key{name: "escape"}
	case p[1] == 'O':
		return 3, key{name: keyNames["\x1b["+string(p[2:3])]}
	case p[1] != '[':
		return 2, key{name: keyNames[string(p[:2])]}
	}
	for i := 2; i < len(p); i++ {
		switch c := p[i]; {
		case c >= 0x40 && c <= 0x7e:
			return i + 1, d.named(string(p[2:i]), c)
		case c < 0x20 || c > 0x7e, i == maxSequence: // it is none after all
			return i, key{}
		}
	}
	return 0, key{}
}

// named is the key of a sequence with parameters.
func (d *keyDecoder) named(params string, final byte) key {
	var n [3]int
	for i, part := range strings.Split(params+";;", ";")[:len(n)] {
		n[i], _ = strconv.Atoi(part) // what is left out is 0
	}
	const enter, shifted = 13, 2
	switch {
	case final == '~' && n[0] == 200:
		d.pasting = true
		return key{}
	case final == 'u' && n[0] == enter && n[1] >= shifted, final == '~' && n[0] == 27 && n[2] == enter && n[1] >= shifted:
		return key{name: "newline"}
	case final == '~':
		return key{name: keyNames[fmt.Sprintf("\x1b[%d~", n[0])]}
	case n[1] > shifted && (final == 'C' || final == 'D'): // with Ctrl or Alt
		return key{name: "word " + keyNames["\x1b["+string(final)]}
	}
	return key{name: keyNames["\x1b["+string(final)]}
}
