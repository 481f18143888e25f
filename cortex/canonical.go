package cortex

import (
	"encoding/json"
	"strconv"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// canonical is a body in RFC 8785 form. An item is written for every leaf that
// ends, so it is not encoded by reflection; what is rare is.
func canonical(b Body) ([]byte, error) {
	if item, ok := b.(*Remember); ok {
		return item.canonical(), nil
	}
	return journal.Canonical(flow.JSON(b))
}

// canonical has the members in their order, those that are empty left out as
// their tags say.
func (b *Remember) canonical() []byte {
	o := appendText(make([]byte, 0, 256+len(b.Text)), `{"by":`, b.By)
	o = appendFilled(o, `,"digest":`, b.Digest)
	o = strconv.AppendInt(append(o, `,"importance":`...), int64(b.Importance), 10)
	o = appendText(o, `,"item":`, b.Item)
	o = appendFilled(o, `,"kind":`, b.Kind)
	o = appendFilled(o, `,"outcome":`, b.Outcome)
	o = strconv.AppendBool(append(o, `,"pinned":`...), b.Pinned)
	o = appendFilled(o, `,"server":`, b.Server)
	o = appendFilled(o, `,"skill":`, b.Skill)
	o = appendText(o, `,"text":`, b.Text)
	o = appendFilled(o, `,"tool":`, b.Tool)
	o = appendFilled(o, `,"verb":`, b.Verb)
	return append(o, '}')
}

func appendFilled(dst []byte, name, s string) []byte {
	if s == "" {
		return dst
	}
	return appendText(dst, name, s)
}

// appendText appends a string as RFC 8785 spells it. Most need no escapes.
func appendText(dst []byte, name, s string) []byte {
	dst = append(dst, name...)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(dst, spelled(s)...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// spelled goes the long way, through the decoder that everybody else uses.
func spelled(s string) []byte {
	quoted, err := json.Marshal(s)
	if err == nil {
		quoted, err = journal.Canonical(quoted)
	}
	if err != nil {
		panic("cortex: a string cannot be spelled: " + err.Error()) // encoding/json makes valid UTF-8 of anything
	}
	return quoted
}
