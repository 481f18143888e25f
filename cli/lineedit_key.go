package cli

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// key is something that a person at a terminal did.
type key struct {
	code keyCode
	text string // of keyText: what was typed or pasted
}

type keyCode int

const (
	keyNone keyCode = iota // what nobody here has a use for
	keyText
	keyEnter
	keyNewline // Alt-Enter, Shift-Enter where the terminal tells it apart
	keyTab
	keyEscape
	keyInterrupt
	keyClear
	keySearch
	keyYank
	keyBackspace
	keyDelete
	keyCtrlD // Ctrl-D: the end of input, or a character deleted
	keyKillEnd
	keyKillStart
	keyKillWord
	keyKillWordRight
	keyLeft
	keyRight
	keyUp
	keyDown
	keyHome
	keyEnd
	keyFirst
	keyLast
	keyWordLeft
	keyWordRight
)

// controls are the keys with Ctrl, by the byte that they send.
var controls = map[byte]keyCode{
	'A' - '@': keyHome, 'B' - '@': keyLeft, 'C' - '@': keyInterrupt, 'D' - '@': keyCtrlD, 'E' - '@': keyEnd, 'F' - '@': keyRight,
	'G' - '@': keyEscape, 'H' - '@': keyBackspace, 'I' - '@': keyTab, 'J' - '@': keyEnter, 'K' - '@': keyKillEnd, 'L' - '@': keyClear,
	'M' - '@': keyEnter, 'N' - '@': keyDown, 'P' - '@': keyUp, 'R' - '@': keySearch, 'U' - '@': keyKillStart, 'W' - '@': keyKillWord,
	'Y' - '@': keyYank, 0x7f: keyBackspace,
}

// alts are the keys with Alt, which terminals send after an escape.
var alts = map[byte]keyCode{
	'\r': keyNewline, '\n': keyNewline, 'b': keyWordLeft, 'f': keyWordRight, 'd': keyKillWordRight, 0x7f: keyKillWord, 0x08: keyKillWord,
	'<': keyFirst, '>': keyLast,
}

// finals are the keys whose sequences end in a letter; with Ctrl or Alt left and
// right move by words.
var finals = map[byte]keyCode{'A': keyUp, 'B': keyDown, 'C': keyRight, 'D': keyLeft, 'F': keyEnd, 'H': keyHome}

// numbered are the keys whose sequences have a number and end in ~.
var numbered = map[int]keyCode{1: keyHome, 3: keyDelete, 4: keyEnd, 7: keyHome, 8: keyEnd}

const (
	escape      = 0x1b
	pasteBegins = 200
	pasteEnd    = "\x1b[201~"
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

// feed takes in some bytes and returns the keys that they complete.
func (d *keyDecoder) feed(p []byte) (keys []key) {
	d.left = append(d.left, p...)
	for len(d.left) > 0 {
		n, k := d.next(d.left)
		if n == 0 {
			break
		}
		d.left = d.left[n:]
		if k.code != keyNone {
			keys = append(keys, k)
		}
	}
	return joinText(keys)
}

// pause says that nothing followed for a while: an escape was the key itself.
func (d *keyDecoder) pause() (keys []key) {
	if d.pasting || len(d.left) == 0 || d.left[0] != escape {
		return nil
	}
	rest := d.left[1:]
	d.left = nil
	return append([]key{{code: keyEscape}}, d.feed(rest)...)
}

// waits reports whether an escape may be a key of its own, or begin one.
func (d *keyDecoder) waits() bool { return !d.pasting && len(d.left) > 0 && d.left[0] == escape }

// joinText makes of letters that came together one key: they are drawn once.
func joinText(keys []key) (joint []key) {
	for _, k := range keys {
		if n := len(joint); k.code == keyText && n > 0 && joint[n-1].code == keyText {
			joint[n-1].text += k.text
			continue
		}
		joint = append(joint, k)
	}
	return joint
}

// next reads one key from the beginning of p; 0: it is not complete.
func (d *keyDecoder) next(p []byte) (int, key) {
	switch c := p[0]; {
	case d.pasting:
		return d.paste(p)
	case c == escape:
		return d.sequence(p)
	case c < ' ' || c == 0x7f:
		return 1, key{code: controls[c]}
	case !utf8.FullRune(p):
		return 0, key{}
	}
	r, size := utf8.DecodeRune(p)
	if r == utf8.RuneError || r >= 0x80 && r < 0xa0 {
		return size, key{}
	}
	return size, key{keyText, string(p[:size])}
}

// paste collects up to the end of what is pasted.
func (d *keyDecoder) paste(p []byte) (int, key) {
	if i := bytes.Index(p, []byte(pasteEnd)); i >= 0 {
		d.collect(p[:i])
		text := pasteText(d.pasted)
		d.pasting, d.pasted = false, nil
		return i + len(pasteEnd), key{keyText, text}
	}
	n := len(p)
	for i := max(0, n-len(pasteEnd)+1); i < n; i++ { // the end may have begun
		if strings.HasPrefix(pasteEnd, string(p[i:])) {
			n = i
			break
		}
	}
	d.collect(p[:n])
	return n, key{}
}

func (d *keyDecoder) collect(p []byte) {
	d.pasted = append(d.pasted, p[:min(len(p), maxPaste-len(d.pasted))]...)
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

// sequence reads a key that begins with an escape.
func (d *keyDecoder) sequence(p []byte) (int, key) {
	if len(p) < 2 {
		return 0, key{}
	}
	switch p[1] {
	case '[':
		return d.control(p)
	case 'O':
		if len(p) < 3 {
			return 0, key{}
		}
		return 3, key{code: finals[p[2]]}
	case escape:
		return 1, key{code: keyEscape}
	}
	return 2, key{code: alts[p[1]]}
}

// control reads a sequence with parameters, up to its final byte.
func (d *keyDecoder) control(p []byte) (int, key) {
	for i := 2; i < len(p); i++ {
		switch c := p[i]; {
		case c >= 0x40 && c <= 0x7e:
			return i + 1, d.named(p[2:i], c)
		case c < 0x20 || c > 0x7e, i == maxSequence: // it is none after all
			return i, key{}
		}
	}
	return 0, key{}
}

func (d *keyDecoder) named(params []byte, final byte) key {
	var n []int
	for part := range strings.SplitSeq(string(params), ";") {
		v, _ := strconv.Atoi(part) // what is left out is 0
		n = append(n, v)
	}
	n = append(n, 0, 0)
	const enter, shifted = 13, 2
	switch {
	case final == '~' && n[0] == pasteBegins:
		d.pasting = true
		return key{}
	case final == 'u' && n[0] == enter && n[1] >= shifted, final == '~' && n[0] == 27 && n[2] == enter && n[1] >= shifted:
		return key{code: keyNewline}
	case final == '~':
		return key{code: numbered[n[0]]}
	case final == 'C' && n[1] > shifted:
		return key{code: keyWordRight}
	case final == 'D' && n[1] > shifted:
		return key{code: keyWordLeft}
	}
	return key{code: finals[final]}
}
